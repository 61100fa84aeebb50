# $name

A plugin of framework-app that names the messages whose handlers take long. Once installed, it is loaded by itself.

```yaml
plugins: { settings: { $name: { slow_after: 1s } } }
```

Here: `pip install -e '.[dev]'` for what its tests need, then `framework-app check`, `framework-app dev`, `pytest`; `framework-app plugins handlers` shows its hooks.
