{{/* What a replica's pod mounts: a volume and a mount for each, as {"volumes": […], "mounts": […]}. */}}
{{- define "maestrohub.uns.volumes" -}}
{{- $volumes := list (dict "name" "config" "configMap" (dict "name" (include "maestrohub.uns.config" .))) -}}
{{- $mounts := list (dict "name" "config" "mountPath" "/etc/maestrohub/config" "readOnly" true) -}}
{{- $secrets := list -}}
{{- with .Values.uns.mqtt.embedded.tls.secretName -}}
  {{- $secrets = append $secrets (dict "name" "tls" "secret" .) -}}
{{- end -}}
{{- with .Values.uns.http.tlsSecretName -}}
  {{- $secrets = append $secrets (dict "name" "http-tls" "secret" .) -}}
{{- end -}}
{{- if eq .Values.storage.type "timescale" -}}
  {{- $secrets = append $secrets (dict "name" "timescale" "secret" (include "maestrohub.timescale.secret" .) "key" .Values.storage.timescale.secretKey "path" "url") -}}
  {{- with .Values.storage.timescale.caSecretName -}}
    {{- $secrets = append $secrets (dict "name" "timescale-ca" "secret" . "key" "ca.crt" "path" "ca.crt") -}}
  {{- end -}}
{{- end -}}
{{- if include "maestrohub.clustered" . -}}
  {{- $secrets = append $secrets (dict "name" "mesh" "secret" (include "maestrohub.meshTLS.secret" .)) -}}
  {{- with include "maestrohub.natsTLSSecret" . -}}
    {{- $secrets = append $secrets (dict "name" "nats-tls" "secret" .) -}}
  {{- end -}}
  {{- if and .Values.nats.enabled .Values.global.natsAuth.enabled -}}
    {{- $secrets = append $secrets (dict "name" "nats-auth" "secret" (include "maestrohub.natsAuth.unsSecret" .) "key" "broker" "path" "password") -}}
  {{- else if and (not .Values.nats.enabled) .Values.externalNats.passwordSecretName -}}
    {{- $secrets = append $secrets (dict "name" "nats-auth" "secret" .Values.externalNats.passwordSecretName "key" .Values.externalNats.passwordSecretKey "path" "password") -}}
  {{- end -}}
{{- end -}}
{{- range $secrets -}}
  {{- $source := dict "secretName" .secret "defaultMode" 288 -}}
  {{- if .key -}}{{- $_ := set $source "items" (list (dict "key" .key "path" .path)) -}}{{- end -}}
  {{- $volumes = append $volumes (dict "name" .name "secret" $source) -}}
  {{- $mounts = append $mounts (dict "name" .name "mountPath" (printf "/etc/maestrohub/%s" .name) "readOnly" true) -}}
{{- end -}}
{{- if or .Values.uns.model.content .Values.uns.model.existingConfigMap -}}
  {{- $volumes = append $volumes (dict "name" "model" "configMap" (dict "name" (include "maestrohub.uns.model" .) "items" (list (dict "key" .Values.uns.model.key "path" "model.yaml")))) -}}
  {{- $mounts = append $mounts (dict "name" "model" "mountPath" "/etc/maestrohub/model" "readOnly" true) -}}
{{- end -}}
{{- if include "maestrohub.clientsFile" . -}}
  {{- $sources := list -}}
  {{- if or .Values.uns.clients.entries .Values.uns.clients.existingSecret -}}
    {{- $key := ternary .Values.uns.clients.key "clients.yaml" (not (empty .Values.uns.clients.existingSecret)) -}}
    {{- $sources = append $sources (dict "secret" (dict "name" (include "maestrohub.uns.clients" .) "items" (list (dict "key" $key "path" "clients.yaml")))) -}}
  {{- end -}}
  {{- if include "maestrohub.test.client" . -}}
    {{- $sources = append $sources (dict "secret" (dict "name" (include "maestrohub.test.secret" .) "items" (list (dict "key" "clients.yaml" "path" "helm-test.yaml")))) -}}
  {{- end -}}
  {{- $volumes = append $volumes (dict "name" "clients" "projected" (dict "sources" $sources "defaultMode" 288)) -}}
  {{- $mounts = append $mounts (dict "name" "clients" "mountPath" "/etc/maestrohub/clients" "readOnly" true) -}}
{{- end -}}
{{- if ne .Values.storage.type "embedded" -}}
  {{- $volumes = append $volumes (dict "name" "data" "emptyDir" (dict "sizeLimit" "64Mi")) -}}
{{- end -}}
{{- $mounts = append $mounts (dict "name" "data" "mountPath" "/var/lib/maestrohub/data") -}}
{{- dict "volumes" (concat $volumes (.Values.uns.extraVolumes | default list)) "mounts" (concat $mounts (.Values.uns.extraVolumeMounts | default list)) | toJson -}}
{{- end }}

{{/* 85 % of limits.memory in bytes, for GOMEMLIMIT; empty without a limit. */}}
{{- define "maestrohub.goMemLimit" -}}
{{- $limit := ((.Values.uns.resources).limits).memory | default "" | toString -}}
{{- if $limit -}}
  {{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
  {{- $unit := regexFind "[A-Za-z]*$" $limit -}}
  {{- if not (hasKey $units $unit) -}}
    {{- fail (printf "ERROR: uns.resources.limits.memory (%s) must be a number of bytes, or end in k, M, G, T, Ki, Mi, Gi or Ti" $limit) -}}
  {{- end -}}
  {{- mulf (trimSuffix $unit $limit | float64) (index $units $unit | float64) 0.85 | floor | int64 -}}
{{- end -}}
{{- end }}

{{/* Affinity with the replicas kept apart, merged with the user's. */}}
{{- define "maestrohub.uns.affinity" -}}
{{- $term := dict "labelSelector" (dict "matchLabels" (include "maestrohub.selectorLabels" (dict "context" . "name" "uns") | fromYaml)) "topologyKey" "kubernetes.io/hostname" -}}
{{- $anti := dict -}}
{{- if eq .Values.uns.antiAffinity "required" -}}
  {{- $anti = dict "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) -}}
{{- else if eq .Values.uns.antiAffinity "preferred" -}}
  {{- $anti = dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term))) -}}
{{- end -}}
{{- $affinity := merge (deepCopy (.Values.uns.affinity | default dict)) $anti -}}
{{- if $affinity -}}{{ toYaml $affinity }}{{- end -}}
{{- end }}

{{- define "maestrohub.uns.topologySpread" -}}
{{- if kindIs "invalid" .Values.uns.topologySpreadConstraints -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "maestrohub.selectorLabels" (dict "context" $ "name" "uns") | nindent 6 }}
  matchLabelKeys: [controller-revision-hash]
{{- end }}
{{- else -}}
{{- with .Values.uns.topologySpreadConstraints }}{{ toYaml . }}{{ end -}}
{{- end -}}
{{- end }}
