"""A small order desk: what an application on the framework looks like. `framework-app dev example_app` starts it."""
