# For trying the plugin in this folder. Where it is installed nothing names it: its entry point does.
app: { name: $name, handlers: [handlers] }

plugins:
  block: [$name] # the installed one, should there be one: the file here is meant
  local: [$name]
  settings:
    $name: { slow_after: 500ms }
