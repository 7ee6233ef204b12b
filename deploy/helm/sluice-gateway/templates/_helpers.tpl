{{- define "sluice-gateway.name" -}}
{{ printf "%s-gateway" (.Release.Name | lower | trunc 40 | trimSuffix "-") }}
{{- end -}}

{{- define "sluice-gateway.selectorLabels" -}}
app.kubernetes.io/name: sluice-gateway
app.kubernetes.io/instance: {{ include "sluice-gateway.name" . }}
{{- end -}}

{{- define "sluice-gateway.labels" -}}
{{ include "sluice-gateway.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* Labels that Prometheus adds to the series of this release. */}}
{{- define "sluice-gateway.series" -}}
namespace="{{ .Release.Namespace }}",pod=~"{{ include "sluice-gateway.name" . }}-[a-z0-9]+-[a-z0-9]+"
{{- end -}}

{{- define "sluice-gateway.image" -}}
{{ with .Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The address to listen on; IPv6 in brackets. */}}
{{- define "sluice-gateway.host" -}}
{{ contains ":" .Values.bindAddress | ternary (printf "[%s]" .Values.bindAddress) .Values.bindAddress }}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "sluice-gateway.validate" -}}
{{- if and (not .Values.endpoints) (not .Values.endpointsConfigMap) }}
{{- fail "endpoints is required: the list of model servers; or endpointsConfigMap, an existing ConfigMap with the key endpoints.yaml" }}
{{- end }}
{{- if and .Values.endpoints .Values.endpointsConfigMap }}
{{- fail "endpoints and endpointsConfigMap are both set: remove one of them" }}
{{- end }}
{{- $jwt := dig "keys" "jwt" list .Values.config }}
{{- if and (not .Values.keys.secretName) (not $jwt) (not .Values.open) }}
{{- fail "keys.secretName is required: the Secret with the keys of clients (sluice keys add --file keys.yaml --name me, then kubectl create secret generic NAME --from-file keys.yaml); or config.keys.jwt, the issuers of tokens; or open: true, which lets every client in without a key" }}
{{- end }}
{{- if and (or .Values.keys.secretName $jwt) .Values.open }}
{{- fail "open: true lets clients in without a key, but keys.secretName or config.keys.jwt is set: set open to false, or remove the keys" }}
{{- end }}
{{- if and .Values.tls.clientCertificates (not .Values.tls.secretName) }}
{{- fail "tls.clientCertificates needs tls.secretName, a Secret with tls.crt, tls.key and ca.crt" }}
{{- end }}
{{- if and .Values.peers.url .Values.peers.secretName }}
{{- fail "peers.url and peers.secretName are both set: remove one of them" }}
{{- end }}
{{- if and .Values.peers.name (not .Values.peers.url) (not .Values.peers.secretName) }}
{{- fail "peers.name needs peers.url or peers.secretName, the store through which the pods share" }}
{{- end }}
{{- if eq (int .Values.port) (int .Values.adminPort) }}
{{- fail (printf "port and adminPort are both %d: give each a number of its own" (int .Values.port)) }}
{{- end }}
{{- range $name, $value := dict "config" "config" "endpoints" "endpoints" "listen" "port" "admin" "adminPort" "config-file" "pickerConfig" "keys" "keys.secretName" "open" "open" "tls-cert" "tls.secretName" "tls-key" "tls.secretName" "client-ca" "tls.clientCertificates" "drain-timeout" "drainSeconds" "peers" "peers.url" "peers-name" "peers.name" }}
{{- if hasKey $.Values.flags $name }}
{{- fail (printf "flags.%s is set by the chart: use the value %s" $name $value) }}
{{- end }}
{{- end }}
{{- /* A flag wins over its key in silence of the chart: only the log of the gateway would tell. */}}
{{- range $path, $value := dict "listeners" "port, bindAddress and tls" "admin.address" "adminPort and bindAddress" "endpoints" "endpoints" "keys.file" "keys.secretName" "keys.open" "open" "drain" "drainSeconds" "peers" "peers" }}
{{- $section := get $.Values.config (first (splitList "." $path)) }}
{{- $key := last (splitList "." $path) }}
{{- if or (and (eq $key $path) (hasKey $.Values.config $key)) (and (ne $key $path) (kindIs "map" $section) (hasKey (default dict $section) $key)) }}
{{- fail (printf "config.%s is set by the chart: use the value %s" $path $value) }}
{{- end }}
{{- end }}
{{- if and .Values.pickerConfig (hasKey .Values.config "picker") }}
{{- fail "pickerConfig and config.picker are both set: remove one of them" }}
{{- end }}
{{- if and (hasKey .Values.flags "log-format") (hasKey (dig "log" dict .Values.config) "format") }}
{{- fail "config.log.format has no effect, because flags.log-format wins: change flags.log-format, or set it to null" }}
{{- end }}
{{- range $name, $value := .Values.flags }}
{{- if not (regexMatch "^[a-z][a-z0-9-]*$" $name) }}
{{- fail (printf "flags: %q is no name of a flag; write it without dashes in front and without a value" $name) }}
{{- end }}
{{- if and (kindIs "bool" $value) (not $value) }}
{{- fail (printf "flags.%s is false: remove it; if the flag takes a word, write \"false\" in quotes" $name) }}
{{- end }}
{{- end }}
{{- range $name, $text := .Values.files }}
{{- if has $name (list "endpoints.yaml" "picker.yaml" "gateway.yaml") }}
{{- fail (printf "files: %s is a file of the chart: use endpoints, pickerConfig or config, or another name" $name) }}
{{- end }}
{{- end }}
{{- end -}}
