{{/* Name of everything but the pool: as in the published charts, which gateways and dashboards are made for. */}}
{{- define "sluice-epp.name" -}}
{{ printf "%s-epp" (.Release.Name | lower | trunc 40 | trimSuffix "-") }}
{{- end -}}

{{/* Name of what belongs to the whole cluster. */}}
{{- define "sluice-epp.clusterName" -}}
{{ printf "%s-%s" (.Release.Namespace | lower | trunc 40 | trimSuffix "-") (include "sluice-epp.name" .) }}
{{- end -}}

{{- define "sluice-epp.selectorLabels" -}}
app.kubernetes.io/name: sluice-epp
app.kubernetes.io/instance: {{ include "sluice-epp.name" . }}
{{- end -}}

{{- define "sluice-epp.labels" -}}
{{ include "sluice-epp.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* "yes" where endpoints are selected without a pool, else nothing. */}}
{{- define "sluice-epp.selectorMode" -}}
{{- if and (not .Values.inferencePool.create) (not .Values.inferencePool.name) }}yes{{ end -}}
{{- end -}}

{{- define "sluice-epp.poolName" -}}
{{ .Values.inferencePool.name | default .Release.Name }}
{{- end -}}

{{- define "sluice-epp.poolGroup" -}}
{{ splitList "/" .Values.inferencePool.apiVersion | first }}
{{- end -}}

{{- define "sluice-epp.image" -}}
{{ with .Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "sluice-epp.metricsSecret" -}}
{{ .Values.monitoring.prometheus.auth.secretName | default (printf "%s-metrics-reader" (include "sluice-epp.name" .)) }}
{{- end -}}

{{/* "yes" where the pods share what they know, else nothing. */}}
{{- define "sluice-epp.shares" -}}
{{- if or .Values.peers.url .Values.peers.secretName }}yes{{ end -}}
{{- end -}}

{{/* "yes" where one pod leads: alone it serves, or alone it writes status. */}}
{{- define "sluice-epp.elects" -}}
{{- if and (gt (int .Values.replicas) 1) (or (not (include "sluice-epp.shares" .)) .Values.inferenceModels.writeStatus) }}yes{{ end -}}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "sluice-epp.validate" -}}
{{- if .Values.inferenceExtension }}
{{- fail "values have no `inferenceExtension` here: its keys are at the top (inferenceExtension.replicas is `replicas`), and inferencePool.modelServers, .targetPorts are under `modelServers`; see docs/use/kubernetes.md" }}
{{- end }}
{{- if .Values.router }}
{{- fail "values have no `router` here: router.epp.* is at the top (router.epp.replicas is `replicas`), router.modelServers is `modelServers`, router.monitoring is `monitoring`; see docs/use/kubernetes.md" }}
{{- end }}
{{- if and (or .Values.inferencePool.create (include "sluice-epp.selectorMode" .)) (not .Values.modelServers.matchLabels) }}
{{- fail "modelServers.matchLabels is required: the labels of the pods that serve the model, for example --set modelServers.matchLabels.app=vllm" }}
{{- end }}
{{- if and .Values.inferencePool.create (ne (include "sluice-epp.poolGroup" .) "inference.networking.k8s.io") (gt (len .Values.modelServers.targetPorts) 1) }}
{{- fail "an InferencePool of inference.networking.x-k8s.io/v1alpha2 has one target port: leave one in modelServers.targetPorts, or use apiVersion inference.networking.k8s.io/v1" }}
{{- end }}
{{- range $name, $flag := dict "grpc-port" "extProcPort" "grpc-health-port" "grpcHealthPort" "metrics-port" "metricsPort" "tracing" "tracing.enabled" "metrics-endpoint-auth" "monitoring.prometheus.auth.enabled" "config-file" "pluginsConfigFile" "pool-name" "inferencePool.name" "ha-enable-leader-election" "replicas" "peers" "peers.url" "peers-name" "peers.name" "write-model-status" "inferenceModels.writeStatus" }}
{{- if hasKey $.Values.flags $name }}
{{- fail (printf "flags.%s is set by the chart: use the value %s" $name $flag) }}
{{- end }}
{{- end }}
{{- if and .Values.peers.url .Values.peers.secretName }}
{{- fail "peers.url and peers.secretName are both set: remove one of them" }}
{{- end }}
{{- if and .Values.peers.name (not (include "sluice-epp.shares" .)) }}
{{- fail "peers.name needs peers.url or peers.secretName, the store through which the pods share" }}
{{- end }}
{{- range $name, $value := .Values.flags }}
{{- if not (regexMatch "^[A-Za-z][A-Za-z0-9-]*$" $name) }}
{{- fail (printf "flags: %q is no name of a flag; write it without dashes in front and without a value" $name) }}
{{- end }}
{{- end }}
{{- if and (ne .Values.pluginsConfigFile "default-plugins.yaml") (not (hasKey .Values.pluginsCustomConfig .Values.pluginsConfigFile)) }}
{{- fail (printf "pluginsConfigFile is %s, but pluginsCustomConfig has no such key" .Values.pluginsConfigFile) }}
{{- end }}
{{- if .Values.inferenceObjectives }}
{{- if include "sluice-epp.selectorMode" . }}
{{- fail "inferenceObjectives belong to an InferencePool: there is none with inferencePool.create=false and no inferencePool.name; use the flag `objective`" }}
{{- end }}
{{- end }}
{{- end -}}
