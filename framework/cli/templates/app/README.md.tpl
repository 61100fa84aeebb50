# $name

Takes the money for orders from RocketMQ. `$name/handlers.py` says what is done, `framework-app.yaml` how it runs.

```sh
pip install -e '.[dev]'                         # what it needs, and what its tests need; in an environment of its own
framework-app check                             # everything that is wrong, at once
framework-app dev                               # a broker in memory; says where it listens, restarts at each change
python send.py 127.0.0.1:PORT                   # one order, from a second terminal
pytest                                          # retries included, in virtual time
framework-app run --name-server 10.0.0.5:9876   # against your cluster
```
