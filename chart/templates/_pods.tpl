{{/*
What all pods of the chart have alike: labels, images and the restricted security
context of the Pod Security Standards.
*/}}

{{/* maestrohub.selectorLabels (dict "context" . "name" "uns"): never to change, selectors are immutable. */}}
{{- define "maestrohub.selectorLabels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .context.Release.Name }}
{{- end }}

{{/* maestrohub.labels (dict "context" . "name" "uns"). */}}
{{- define "maestrohub.labels" -}}
{{ include "maestrohub.selectorLabels" . }}
app.kubernetes.io/part-of: maestrohub
app.kubernetes.io/version: {{ .context.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .context.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_" }}
{{- with .context.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* maestrohub.image (dict "context" . "image" $image "tag" "default tag"). */}}
{{- define "maestrohub.image" -}}
{{- $registry := .image.registry | default .context.Values.global.imageRegistry -}}
{{- if $registry }}{{ trimSuffix "/" $registry }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .tag }}{{ end }}
{{- end }}

{{/* Our own image: the broker, and every Job that runs a command of it. */}}
{{- define "maestrohub.broker.image" -}}
{{ include "maestrohub.image" (dict "context" . "image" .Values.uns.image "tag" .Chart.AppVersion) }}
{{- end }}

{{- define "maestrohub.imagePullSecrets" -}}
{{- with concat (.Values.global.imagePullSecrets | default list) (.Values.uns.image.pullSecrets | default list) | uniq }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* 65532 is the user of our image. */}}
{{- define "maestrohub.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "maestrohub.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
capabilities:
  drop: [ALL]
{{- end }}
