# How $name runs; what it does stands in $name/handlers.py. `framework-app config explain` shows every key and its value.
app:
  name: $name
  handlers: [$name.handlers]

cluster:
  name_servers: ["127.0.0.1:9876"] # `framework-app dev` brings its own

consumers:
  $name: # the group, as it stands at the handler
    concurrency: 20
    start: first # a group that is new begins with what was sent before it
