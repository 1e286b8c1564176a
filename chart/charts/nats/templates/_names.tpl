{{/*
Names, as the chart above has them. Everything lies in global.depsNamespace.
*/}}

{{- define "nats.namespace" -}}
{{ (.Values.global).depsNamespace | default (printf "%s-deps" .Release.Namespace) }}
{{- end }}

{{- define "nats.name" -}}
{{ .Release.Name }}-nats
{{- end }}

{{/* One DNS name for each server, ready or not: they find each other before any is. */}}
{{- define "nats.headless" -}}
{{ include "nats.name" . }}-headless
{{- end }}

{{- define "nats.configName" -}}
{{ include "nats.name" . }}-config
{{- end }}

{{- define "nats.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "nats.name" .) }}
{{- end }}

{{/* Never to change: selectors are immutable. */}}
{{- define "nats.selectorLabels" -}}
app.kubernetes.io/name: nats
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "nats.labels" -}}
{{- include "nats.labelsAnd" (dict "context" .) -}}
{{- end }}

{{/* nats.labelsAnd (dict "context" . "labels" $more): of an object. The chart's own stand above the user's. */}}
{{- define "nats.labelsAnd" -}}
{{- merge (include "nats.podLabels" . | fromYaml)
  (dict "app.kubernetes.io/version" .context.Chart.AppVersion "app.kubernetes.io/managed-by" .context.Release.Service "helm.sh/chart" (printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_")) | toYaml -}}
{{- end }}

{{/* nats.podLabels (dict "context" . "labels" $more): of a pod. No version among them: another chart with the same servers must not restart them. */}}
{{- define "nats.podLabels" -}}
{{- merge (include "nats.selectorLabels" .context | fromYaml) (dict "app.kubernetes.io/part-of" "maestrohub") (.labels | default dict) ((.context.Values.global).labels | default dict) | toYaml -}}
{{- end }}

{{/* nats.image (dict "context" . "image" .Values.x.image "tag" "default tag"). */}}
{{- define "nats.image" -}}
{{- $registry := .image.registry | default (.context.Values.global).imageRegistry -}}
{{- if $registry }}{{ trimSuffix "/" $registry }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .tag }}{{ end }}
{{- end }}

{{/* Servers, as a number in text. */}}
{{- define "nats.replicas" -}}
{{- if .Values.config.cluster.enabled -}}
{{ .Values.config.cluster.replicas | default (.Values.global).natsReplicas | default 3 }}
{{- else -}}
1
{{- end }}
{{- end }}

{{/* "true" or nothing. */}}
{{- define "nats.auth" -}}
{{ if ((.Values.global).natsAuth).enabled }}true{{ end }}
{{- end }}

{{- define "nats.tls" -}}
{{ if ((.Values.global).natsTLS).enabled }}true{{ end }}
{{- end }}

{{/* nats.bytes "20Gi": a Kubernetes quantity of bytes as a whole number. */}}
{{- define "nats.bytes" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $unit := regexFind "[A-Za-z]*$" (toString .) -}}
{{- if not (hasKey $units $unit) }}{{ fail (printf "ERROR: nats: %q is no quantity of bytes: its unit must be one of k, M, G, T, Ki, Mi, Gi, Ti" (toString .)) }}{{ end -}}
{{- mulf (float64 (trimSuffix $unit (toString .))) (float64 (get $units $unit)) | int64 -}}
{{- end }}
