{{/*
What all pods of the chart have alike: labels, images and the restricted security
context of the Pod Security Standards.
*/}}

{{/* maestrohub.selectorLabels (dict "context" . "name" "uns"): never to change, selectors are immutable. */}}
{{- define "maestrohub.selectorLabels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .context.Release.Name }}
{{- end }}

{{/* maestrohub.labels (dict "context" . "name" "uns" "labels" $more): of an object. The chart's own stand above the user's: policies and selectors know them. */}}
{{- define "maestrohub.labels" -}}
{{- merge (include "maestrohub.podLabels" . | fromYaml)
  (dict "app.kubernetes.io/version" .context.Chart.AppVersion "app.kubernetes.io/managed-by" .context.Release.Service "helm.sh/chart" (printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_")) | toYaml -}}
{{- end }}

{{/* maestrohub.podLabels (dict "context" . "name" "uns" "labels" $more): of a pod. No version among them, which would roll pods. */}}
{{- define "maestrohub.podLabels" -}}
{{- merge (include "maestrohub.selectorLabels" . | fromYaml) (dict "app.kubernetes.io/part-of" "maestrohub") (.labels | default dict) (.context.Values.global.labels | default dict) | toYaml -}}
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
{{ include "maestrohub.podSecurityContextOf" (dict "context" . "user" 65532) }}
{{- end }}

{{/* maestrohub.podSecurityContextOf (dict "context" . "user" 70): OpenShift chooses user and groups itself. */}}
{{- define "maestrohub.podSecurityContextOf" -}}
runAsNonRoot: true
{{- if not .context.Values.global.openShift }}
runAsUser: {{ .user }}
runAsGroup: {{ .user }}
fsGroup: {{ .user }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* maestrohub.placement $values: where a pod runs, of values named as the broker's. */}}
{{- define "maestrohub.placement" -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
  {{- with index $ $key }}
{{ dict $key . | toYaml }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "maestrohub.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
capabilities:
  drop: [ALL]
{{- end }}
