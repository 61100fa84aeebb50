"""Options of a pytest that a test starts: without plugins whose imports are most of its start."""

BARE = tuple(
    word
    for plugin in (
        "anyio", "cacheprovider", "faker", "hypothesispytest", "pytest_cov", "randomly", "xdist", "xdist.looponfail",
    )
    for word in ("-p", f"no:{plugin}")
)  # fmt: skip
