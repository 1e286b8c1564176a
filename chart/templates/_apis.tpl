{{/*
Kinds that are not Kubernetes's own. A cluster says which it has (helm install, upgrade, --dry-run=server, Argo CD): what it
lacks is refused by name, before Helm refuses it without one. helm template is told nothing about a cluster, and renders
what the values say.
*/}}

{{/* "true" if a cluster has said what it has: kinds are in no default. */}}
{{- define "maestrohub.apis.known" -}}
{{- if .Capabilities.APIVersions.Has "apps/v1/StatefulSet" }}true{{ end -}}
{{- end }}

{{- define "maestrohub.validate.apis" -}}
{{- if include "maestrohub.apis.known" . -}}
{{- $nats := .Values.nats -}}
{{- $exporter := $nats.promExporter | default dict -}}
{{- $operator := "the Prometheus operator" -}}
{{- $wanted := list
  (dict "key" "alerts.enabled" "on" .Values.alerts.enabled "group" "monitoring.coreos.com" "kind" "PrometheusRule" "of" $operator)
  (dict "key" "monitoring.podMonitor.enabled" "on" .Values.monitoring.podMonitor.enabled "group" "monitoring.coreos.com" "kind" "PodMonitor" "of" $operator)
  (dict "key" "nats.promExporter.podMonitor.enabled" "on" (and $nats.enabled $exporter.enabled ($exporter.podMonitor).enabled) "group" "monitoring.coreos.com" "kind" "PodMonitor" "of" $operator)
  (dict "key" "certManager.enabled" "on" .Values.certManager.enabled "group" "cert-manager.io" "kind" "Certificate" "of" "cert-manager")
-}}
{{- if .Values.uns.mqtt.gateway.enabled -}}
  {{- range include "maestrohub.uns.ports" . | fromJsonArray -}}
    {{- $kind := include "maestrohub.gateway.kind" (dict "context" $ "port" .name) -}}
    {{- $wanted = append $wanted (dict "key" "uns.mqtt.gateway.enabled" "on" true "group" "gateway.networking.k8s.io" "kind" $kind "of" "the Gateway API (experimental channel)") -}}
  {{- end -}}
{{- end -}}
{{- /* All that lack the same are told at once: one answer instead of three. */ -}}
{{- $keys := list -}}
{{- $lacks := list -}}
{{- $of := "" -}}
{{- range $wanted -}}
  {{- $group := .group -}}
  {{- $kind := .kind -}}
  {{- $has := false -}}
  {{- range list "v1" "v1alpha3" "v1alpha2" -}}
    {{- if $.Capabilities.APIVersions.Has (printf "%s/%s/%s" $group . $kind) -}}{{- $has = true -}}{{- end -}}
  {{- end -}}
  {{- if and .on (not $has) (or (not $of) (eq $of .of)) -}}
    {{- $of = .of -}}
    {{- $keys = append $keys .key | uniq -}}
    {{- $lacks = append $lacks (printf "%s.%s" .kind .group) | uniq -}}
  {{- end -}}
{{- end -}}
{{- if $keys -}}
  {{- include "maestrohub.refuse" (dict "key" (join ", " $keys) "value" true "want" (printf "be false on this cluster, which has no %s: install %s first, or --set %s=false" (join " and no " $lacks) $of (join "=false," $keys))) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* maestrohub.gateway.kind (dict "context" . "port" "mqtts"): a TLSRoute where connections are told apart by name. */}}
{{- define "maestrohub.gateway.kind" -}}
{{ ternary "TLSRoute" "TCPRoute" (and (eq .port "mqtts") (not (empty .context.Values.uns.mqtt.gateway.tlsHostnames))) }}
{{- end }}

{{/* maestrohub.gateway.version (dict "context" . "kind" "TCPRoute"): the value, or the newest that the cluster has; v1alpha2 where nobody says. */}}
{{- define "maestrohub.gateway.version" -}}
{{- $version := "v1alpha2" -}}
{{- range list "v1alpha3" "v1" -}}
  {{- if $.context.Capabilities.APIVersions.Has (printf "gateway.networking.k8s.io/%s/%s" . $.kind) -}}{{- $version = . -}}{{- end -}}
{{- end -}}
gateway.networking.k8s.io/{{ .context.Values.uns.mqtt.gateway.apiVersion | default $version }}
{{- end }}
