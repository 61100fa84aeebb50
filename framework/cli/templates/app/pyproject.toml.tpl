[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "$distribution"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["framework-app>=$version", "pydantic>=2.10"]

[project.optional-dependencies]
dev = ["pytest>=8"]

[tool.hatch.build.targets.wheel]
packages = ["$name"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
