{{/*
The name of every object. A release name of up to 40 characters leaves room for the
longest suffix and for what Kubernetes adds to a StatefulSet's pods (revision hash).
*/}}

{{- define "maestrohub.uns.name" -}}
{{ .Release.Name }}-uns
{{- end }}

{{/* The mesh's Service: one DNS name for each pod, ready or not. */}}
{{- define "maestrohub.uns.headless" -}}
{{ include "maestrohub.uns.name" . }}-headless
{{- end }}

{{- define "maestrohub.uns.mqtt" -}}
{{ include "maestrohub.uns.name" . }}-mqtt
{{- end }}

{{- define "maestrohub.uns.config" -}}
{{ include "maestrohub.uns.name" . }}-config
{{- end }}

{{- define "maestrohub.uns.model" -}}
{{ .Values.uns.model.existingConfigMap | default (printf "%s-model" (include "maestrohub.uns.name" .)) }}
{{- end }}

{{- define "maestrohub.uns.clients" -}}
{{ .Values.uns.clients.existingSecret | default (printf "%s-clients" (include "maestrohub.uns.name" .)) }}
{{- end }}

{{- define "maestrohub.uns.serviceAccount" -}}
{{ .Values.uns.serviceAccount.name | default (include "maestrohub.uns.name" .) }}
{{- end }}

{{/* Keys tls.crt, tls.key, ca.crt. */}}
{{- define "maestrohub.meshTLS.secret" -}}
{{ .Values.uns.mqtt.embedded.mesh.existingSecret | default (printf "%s-mesh-tls" (include "maestrohub.uns.name" .)) }}
{{- end }}

{{/* The namespace of NATS. */}}
{{- define "maestrohub.depsNamespace" -}}
{{ (.Values.global).depsNamespace | default (printf "%s-deps" .Release.Namespace) }}
{{- end }}

{{- define "maestrohub.nats.name" -}}
{{ .Release.Name }}-nats
{{- end }}

{{- define "maestrohub.nats.headless" -}}
{{ include "maestrohub.nats.name" . }}-headless
{{- end }}

{{- define "maestrohub.nats.config" -}}
{{ include "maestrohub.nats.name" . }}-config
{{- end }}

{{/* Deps namespace: what the servers include (accounts, bcrypt). */}}
{{- define "maestrohub.natsAuth.serverSecret" -}}
{{ .Values.global.natsAuth.secretName }}
{{- end }}

{{/* App namespace: keys uns and broker, the passwords of users uns and uns-broker. */}}
{{- define "maestrohub.natsAuth.unsSecret" -}}
{{ .Values.global.natsAuth.secretName }}-uns
{{- end }}

{{/* Deps namespace: key sys, the password of the system account's user. */}}
{{- define "maestrohub.natsAuth.sysSecret" -}}
{{ .Values.global.natsAuth.secretName }}-sys
{{- end }}

{{/* App namespace: ca.crt, tls.crt, tls.key. */}}
{{- define "maestrohub.natsTLS.clientSecret" -}}
{{ .Values.global.natsTLS.secretName }}
{{- end }}

{{/* Deps namespace: ca.crt, tls.crt, tls.key. */}}
{{- define "maestrohub.natsTLS.serverSecret" -}}
{{ .Values.global.natsTLS.serverSecretName }}
{{- end }}

{{/* Deps namespace: the CA with its key. */}}
{{- define "maestrohub.natsTLS.caSecret" -}}
{{ .Values.global.natsTLS.caSecretName }}
{{- end }}

{{- define "maestrohub.timescale.name" -}}
{{ .Release.Name }}-timescale
{{- end }}

{{/* Key storage.timescale.secretKey (url); for the bundled database also password. */}}
{{- define "maestrohub.timescale.secret" -}}
{{ .Values.storage.timescale.existingSecret | default (printf "%s-timescale" (include "maestrohub.uns.name" .)) }}
{{- end }}

{{/* Keys clients.yaml, id, secret of the API client that helm test signs in as. */}}
{{- define "maestrohub.test.secret" -}}
{{ .Values.tests.existingSecret | default (printf "%s-test-client" (include "maestrohub.uns.name" .)) }}
{{- end }}
