{{- define "order-desk.labels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end }}

{{- /* Kubernetes' clock begins before preStop: all of a stop is in it. */}}
{{- define "order-desk.grace" -}}
{{ add .Values.preStopSeconds .Values.drainSeconds .Values.leavingSeconds }}
{{- end }}

{{- define "order-desk.settings" -}}
{{- $ours := dict
  "app" (dict "drain" (printf "%ds" (int .Values.drainSeconds)))
  "observe" (dict "listen" (printf "0.0.0.0:%d" (int .Values.port)) "public" (list "probes" "metrics")) }}
{{- mustMergeOverwrite (deepCopy .Values.settings) $ours | toYaml }}
{{- end }}
