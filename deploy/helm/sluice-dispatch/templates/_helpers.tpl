{{- define "sluice-dispatch.name" -}}
{{ printf "%s-dispatch" (.Release.Name | lower | trunc 40 | trimSuffix "-") }}
{{- end -}}

{{- define "sluice-dispatch.selectorLabels" -}}
app.kubernetes.io/name: sluice-dispatch
app.kubernetes.io/instance: {{ include "sluice-dispatch.name" . }}
{{- end -}}

{{- define "sluice-dispatch.labels" -}}
{{ include "sluice-dispatch.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "sluice-dispatch.image" -}}
{{ with .Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* Labels that Prometheus adds to the series of this release. */}}
{{- define "sluice-dispatch.series" -}}
namespace="{{ .Release.Namespace }}",pod=~"{{ include "sluice-dispatch.name" . }}-[a-z0-9]+-[a-z0-9]+"
{{- end -}}

{{/* Pods that share the capacity. */}}
{{- define "sluice-dispatch.shares" -}}
{{- if .Values.autoscaling.enabled }}{{ int .Values.autoscaling.maxReplicas }}{{ else }}{{ max 1 (int .Values.replicas) }}{{ end -}}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "sluice-dispatch.validate" -}}
{{- if not .Values.config }}
{{- fail "config is required: the content of dispatch.yaml, under the key config of a values file; examples/dispatch-redis.yaml shows one" }}
{{- end }}
{{- if eq (toString (get .Values.config "transport")) "sqlite" }}
{{- fail "config.transport is sqlite: its file belongs to one machine, and no application reaches it here; use redis-sortedset" }}
{{- end }}
{{- if eq (int .Values.healthPort) (int .Values.metricsPort) }}
{{- fail (printf "healthPort and metricsPort are both %d: give each a number of its own" (int .Values.healthPort)) }}
{{- end }}
{{- if and .Values.monitoring.enabled .Values.podMonitor.enabled }}
{{- fail "monitoring.enabled and podMonitor.enabled are both true: every pod would be scraped twice; choose one" }}
{{- end }}
{{- if .Values.autoscaling.enabled }}
{{- if not .Values.autoscaling.prometheusURL }}
{{- fail "autoscaling.prometheusURL is required: the URL of the Prometheus that scrapes the dispatcher" }}
{{- end }}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) }}
{{- fail (printf "autoscaling.minReplicas is %d, and maxReplicas %d" (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) }}
{{- end }}
{{- end }}
{{- if eq (toString (get .Values.config "transport")) "redis-pubsub" }}
{{- if or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled }}
{{- fail "config.transport is redis-pubsub, which gives every message to every pod: keep replicas at 1, and no autoscaling" }}
{{- end }}
{{- end }}
{{- range $name, $value := dict "config" "config" "bind-address" "bindAddress" "health-port" "healthPort" "metrics-port" "metricsPort" "drain-timeout" "drainSeconds" "gateway-key-file" "gatewayKey.secretName" "replica-count" "replicas" }}
{{- if hasKey $.Values.flags $name }}
{{- fail (printf "flags.%s is set by the chart: use the value %s" $name $value) }}
{{- end }}
{{- if hasKey $.Values.config $name }}
{{- fail (printf "config.%s is set by the chart: use the value %s" $name $value) }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.flags }}
{{- if not (regexMatch "^[A-Za-z][A-Za-z0-9.-]*$" $name) }}
{{- fail (printf "flags: %q is no name of a flag; write it without dashes in front and without a value" $name) }}
{{- end }}
{{- end }}
{{- if hasKey .Values.files "dispatch.yaml" }}
{{- fail "files: dispatch.yaml is a file of the chart: use config, or another name" }}
{{- end }}
{{- end -}}
