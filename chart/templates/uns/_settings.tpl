{{/*
config.yaml from the values. files/settings.json says which value is which setting;
a value that is null or left out is not written, which keeps the broker's default.
*/}}

{{/* maestrohub.value (dict "context" . "path" "uns.replicas"): the value as JSON, null if there is none. */}}
{{- define "maestrohub.value" -}}
{{- $at := .context.Values -}}
{{- range splitList "." .path -}}
  {{- if kindIs "map" $at -}}
    {{- $at = index $at . -}}
  {{- else -}}
    {{- $at = "" -}}
  {{- end -}}
{{- end -}}
{{- if kindIs "invalid" $at -}}null{{- else -}}{{ toJson $at }}{{- end -}}
{{- end }}

{{/* maestrohub.port (dict "context" . "path" "uns.http.port"): the value, or the broker's default. */}}
{{- define "maestrohub.port" -}}
{{- $path := .path -}}
{{- $value := (printf `{"value": %s}` (include "maestrohub.value" .) | fromJson).value -}}
{{- if kindIs "invalid" $value -}}
  {{- range (.context.Files.Get "files/settings.json" | fromJson).settings -}}
    {{- if eq .value $path -}}{{ .default }}{{- end -}}
  {{- end -}}
{{- else -}}
{{ int64 $value }}
{{- end -}}
{{- end }}

{{/* maestrohub.put (dict "into" $dict "key" "a.b.c" "value" $any): sets a nested key. */}}
{{- define "maestrohub.put" -}}
{{- $at := .into -}}
{{- $names := splitList "." .key -}}
{{- range initial $names -}}
  {{- if not (hasKey $at .) -}}{{- $_ := set $at . dict -}}{{- end -}}
  {{- $at = index $at . -}}
{{- end -}}
{{- $_ := set $at (last $names) .value -}}
{{- end }}

{{/* The NATS servers, one a line; empty: a single node. */}}
{{- define "maestrohub.natsURLs" -}}
{{- if .Values.nats.enabled -}}
{{ ternary "tls" "nats" .Values.global.natsTLS.enabled }}://{{ include "maestrohub.nats.name" . }}.{{ include "maestrohub.depsNamespace" . }}.svc:4222
{{- else -}}
{{ join "\n" .Values.externalNats.urls }}
{{- end -}}
{{- end }}

{{/* "true" if replicas share their state through NATS. */}}
{{- define "maestrohub.clustered" -}}
{{- if include "maestrohub.natsURLs" . -}}true{{- end -}}
{{- end }}

{{/* config.yaml: what the values say, and what uns.config adds. */}}
{{- define "maestrohub.configYAML" -}}
{{- $settings := include "maestrohub.settings" . | fromJson -}}
{{- dict "modules" (dict "uns" (merge $settings (deepCopy (.Values.uns.config | default dict)))) | toYaml -}}
{{- end }}

{{- define "maestrohub.settings" -}}
{{- $context := . -}}
{{- $config := dict -}}
{{- range (.Files.Get "files/settings.json" | fromJson).settings -}}
  {{- $value := (printf `{"value": %s}` (include "maestrohub.value" (dict "context" $context "path" .value)) | fromJson).value -}}
  {{- if and (hasPrefix "externalNats." .value) (or $context.Values.nats.enabled (not $value)) -}}
  {{- else if eq .sort "port" -}}
    {{- include "maestrohub.put" (dict "into" $config "key" .key "value" (printf ":%s" (include "maestrohub.port" (dict "context" $context "path" .value)))) -}}
  {{- else if not (kindIs "invalid" $value) -}}
    {{- if kindIs "float64" $value -}}{{- $value = int64 $value -}}{{- end -}}
    {{- include "maestrohub.put" (dict "into" $config "key" .key "value" $value) -}}
  {{- end -}}
{{- end -}}
{{- $embedded := .Values.uns.mqtt.embedded -}}
{{- if $embedded.tls.secretName -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "embeddedBroker.tls.certFile" "value" "/etc/maestrohub/tls/tls.crt") -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "embeddedBroker.tls.keyFile" "value" "/etc/maestrohub/tls/tls.key") -}}
  {{- if $embedded.tls.clientCA -}}
    {{- include "maestrohub.put" (dict "into" $config "key" "embeddedBroker.tls.clientCAFile" "value" "/etc/maestrohub/tls/ca.crt") -}}
  {{- end -}}
{{- end -}}
{{- if .Values.uns.http.tlsSecretName -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "http.tls.certFile" "value" "/etc/maestrohub/http-tls/tls.crt") -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "http.tls.keyFile" "value" "/etc/maestrohub/http-tls/tls.key") -}}
{{- end -}}
{{- if or .Values.uns.model.content .Values.uns.model.existingConfigMap -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "modelFile" "value" "/etc/maestrohub/model/model.yaml") -}}
{{- end -}}
{{- if include "maestrohub.clientsFile" . -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "clientsFile" "value" "/etc/maestrohub/clients") -}}
{{- end -}}
{{- if eq .Values.storage.type "timescale" -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "historian.timescale.url_file" "value" "/etc/maestrohub/timescale/url") -}}
{{- end -}}
{{- if include "maestrohub.clustered" . -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "brokerMesh.advertise" "value" (printf "{replicaId}.%s.%s.svc:%s" (include "maestrohub.uns.headless" .) .Release.Namespace (include "maestrohub.port" (dict "context" . "path" "uns.mqtt.embedded.mesh.port")))) -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "brokerMesh.certFile" "value" "/etc/maestrohub/mesh/tls.crt") -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "brokerMesh.keyFile" "value" "/etc/maestrohub/mesh/tls.key") -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "brokerMesh.caFile" "value" "/etc/maestrohub/mesh/ca.crt") -}}
  {{- include "maestrohub.put" (dict "into" $config "key" "nats.servers" "value" (splitList "\n" (include "maestrohub.natsURLs" .))) -}}
  {{- if .Values.nats.enabled -}}
    {{- if .Values.global.natsAuth.enabled -}}
      {{- include "maestrohub.put" (dict "into" $config "key" "nats.user" "value" "uns-broker") -}}
      {{- include "maestrohub.put" (dict "into" $config "key" "nats.password_file" "value" "/etc/maestrohub/nats-auth/password") -}}
    {{- end -}}
  {{- else if .Values.externalNats.passwordSecretName -}}
    {{- include "maestrohub.put" (dict "into" $config "key" "nats.password_file" "value" "/etc/maestrohub/nats-auth/password") -}}
  {{- end -}}
  {{- if include "maestrohub.natsTLSSecret" . -}}
    {{- include "maestrohub.put" (dict "into" $config "key" "nats.tls.caFile" "value" "/etc/maestrohub/nats-tls/ca.crt") -}}
    {{- if ternary .Values.global.natsTLS.mutual .Values.externalNats.mutual .Values.nats.enabled -}}
      {{- include "maestrohub.put" (dict "into" $config "key" "nats.tls.certFile" "value" "/etc/maestrohub/nats-tls/tls.crt") -}}
      {{- include "maestrohub.put" (dict "into" $config "key" "nats.tls.keyFile" "value" "/etc/maestrohub/nats-tls/tls.key") -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- toJson $config -}}
{{- end }}

{{/* The Secret with the certificates of NATS's clients; empty: none. */}}
{{- define "maestrohub.natsTLSSecret" -}}
{{- if .Values.nats.enabled -}}
  {{- if .Values.global.natsTLS.enabled }}{{ include "maestrohub.natsTLS.clientSecret" . }}{{ end -}}
{{- else -}}
{{ .Values.externalNats.tlsSecretName }}
{{- end -}}
{{- end }}

{{/* "true" if there are API clients in files: the user's, and helm test's. */}}
{{- define "maestrohub.clientsFile" -}}
{{- if or .Values.uns.clients.entries .Values.uns.clients.existingSecret (include "maestrohub.test.client" .) -}}true{{- end -}}
{{- end }}

{{/* "true" if helm test has an API client of its own. */}}
{{- define "maestrohub.test.client" -}}
{{- if and .Values.tests.enabled (not .Values.tests.existingSecret) -}}true{{- end -}}
{{- end }}
