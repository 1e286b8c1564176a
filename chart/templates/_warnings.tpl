{{/* What is not as production wants it, a line each. */}}
{{- define "maestrohub.warnings" -}}
{{- $warnings := list -}}
{{- if .Values.uns.stopped -}}
  {{- $warnings = append $warnings "uns.stopped is true: no replica runs, and nobody is served." -}}
{{- end -}}
{{- if eq (include "maestrohub.uns.replicas" . | int) 1 -}}
  {{- $warnings = append $warnings "uns.replicas is 1: while the replica restarts nobody is served." -}}
{{- end -}}
{{- if not (include "maestrohub.clustered" .) -}}
  {{- $warnings = append $warnings "without NATS sessions are in memory: a restart ends them, and what was kept for devices that are away." -}}
{{- end -}}
{{- if not .Values.uns.mqtt.embedded.tls.secretName -}}
  {{- $warnings = append $warnings "uns.mqtt.embedded.tls.secretName is empty: devices send their secrets unencrypted." -}}
{{- end -}}
{{- if and .Values.nats.enabled (not .Values.global.natsAuth.enabled) -}}
  {{- $warnings = append $warnings "global.natsAuth.enabled is false: whoever reaches NATS reads and writes the broker's state." -}}
{{- end -}}
{{- if and .Values.nats.enabled (not .Values.global.natsTLS.enabled) -}}
  {{- $warnings = append $warnings "global.natsTLS.enabled is false: the broker's state crosses the network unencrypted." -}}
{{- end -}}
{{- if not .Values.nats.enabled -}}
  {{- range $key := list "natsAuth" "natsTLS" -}}
    {{- if (index $.Values.global $key).enabled -}}
      {{- $warnings = append $warnings (printf "global.%s is the chart's NATS's, which nats.enabled (false) leaves out: it has no effect. Of another NATS speak externalNats.user, passwordSecretName and tlsSecretName." $key) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and (include "maestrohub.clustered" .) (lt (.Values.global.natsReplicas | default 3 | int) 3) -}}
  {{- $warnings = append $warnings (printf "global.natsReplicas is %d: with the loss of a NATS server acknowledged state is lost." (int .Values.global.natsReplicas)) -}}
{{- end -}}
{{- if .Values.nats.enabled -}}
  {{- $jetstream := .Values.nats.config.jetstream -}}
  {{- if not $jetstream.fileStore.pvc.enabled -}}
    {{- $warnings = append $warnings "nats.config.jetstream.fileStore.pvc.enabled is false: what replicas share ends with NATS's pods." -}}
  {{- end -}}
  {{- if ne $jetstream.syncInterval "always" -}}
    {{- $warnings = append $warnings (printf "nats.config.jetstream.syncInterval is %s: a power cut of all NATS servers at once loses up to that much of what was acknowledged." $jetstream.syncInterval) -}}
  {{- end -}}
{{- end -}}
{{- if and (gt (include "maestrohub.uns.replicas" . | int) 1) (eq .Values.uns.antiAffinity "none") -}}
  {{- $warnings = append $warnings "uns.antiAffinity is none: the loss of one node may be the loss of every replica." -}}
{{- end -}}
{{- if and (eq (.Values.storage.type | default "embedded") "embedded") (ne .Values.storage.embedded.retentionPolicy.whenDeleted "Retain") -}}
  {{- $warnings = append $warnings "storage.embedded.retentionPolicy.whenDeleted is Delete: an uninstallation deletes the history." -}}
{{- end -}}
{{- if .Values.storage.timescale.bundled.enabled -}}
  {{- $warnings = append $warnings "storage.timescale.bundled is for trials: one copy, no backup. Give a database of your own in storage.timescale.existingSecret." -}}
{{- end -}}
{{- if not .Values.networkPolicy.enabled -}}
  {{- $warnings = append $warnings "networkPolicy.enabled is false: every pod of the cluster reaches every port." -}}
{{- end -}}
{{- if and .Values.uns.http.ingress.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.httpFrom) -}}
  {{- $warnings = append $warnings "networkPolicy.httpFrom is empty: the controller of uns.http.ingress does not reach the page." -}}
{{- end -}}
{{- if and .Values.monitoring.podMonitor.enabled .Values.uns.http.tlsSecretName (not .Values.monitoring.podMonitor.tlsConfig) -}}
  {{- $warnings = append $warnings "monitoring.podMonitor.tlsConfig is empty: Prometheus holds the certificate of uns.http.tlsSecretName against the pods' addresses, which it does not name, and scrapes nothing." -}}
{{- end -}}
{{- $service := .Values.uns.mqtt.service -}}
{{- $embedded := .Values.uns.mqtt.embedded -}}
{{- $own := or $embedded.proxyProtocol.trustedProxies (not $embedded.limits.trustClientAddresses) -}}
{{- range $key, $on := dict "uns.mqtt.gateway" .Values.uns.mqtt.gateway.enabled "uns.mqtt.embedded.webSocket.ingress" $embedded.webSocket.ingress.enabled -}}
  {{- if and $on (not $own) -}}
    {{- $warnings = append $warnings (printf "uns.mqtt.embedded.limits.trustClientAddresses is true, and devices come by the addresses of %s's proxies: one that fails to sign in shuts out all behind its proxy, and maxConnectionsPerSource counts them as one. Set proxyProtocol.trustedProxies, where it sends that header, or trustClientAddresses false." $key) -}}
  {{- end -}}
{{- end -}}
{{- if and (not $own) (ne $service.type "ClusterIP") (ne ($service.externalTrafficPolicy | default "Cluster") "Local") -}}
  {{- $warnings = append $warnings "uns.mqtt.embedded.limits.trustClientAddresses is true, and devices come by the addresses of nodes: one that fails to sign in shuts out all behind its node. Set uns.mqtt.service.externalTrafficPolicy Local, or proxyProtocol.trustedProxies." -}}
{{- end -}}
{{- $inline := false -}}
{{- range .Values.uns.clients.entries -}}{{- if .secret -}}{{- $inline = true -}}{{- end -}}{{- end -}}
{{- if $inline -}}
  {{- $warnings = append $warnings "uns.clients.entries holds secrets, and so does Helm's record of the release: use secretHash, or uns.clients.existingSecret." -}}
{{- end -}}
{{- range $warnings }}
WARNING: {{ . }}
{{- end -}}
{{- end }}
