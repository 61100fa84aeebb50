[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "$distribution"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["framework-app>=$version", "pydantic>=2.10", "structlog>=25.1"]

[project.optional-dependencies]
dev = ["pytest>=8"]

[project.entry-points."framework_app.plugins"]
$name = "$name:$kind"

[tool.hatch.build.targets.wheel]
only-include = ["$name.py"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
