"""Typed headers of requests and their answers, one file a family. A request's class says its code."""
