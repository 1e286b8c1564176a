{{/*
What values.schema.json cannot refuse: durations and sizes out of range, and values that do
not fit together. Every text begins with ERROR: and names the key, its value and what is allowed.
*/}}

{{- define "maestrohub.validate" -}}
{{- include "maestrohub.validate.names" . -}}
{{- include "maestrohub.validate.ranges" . -}}
{{- include "maestrohub.validate.settings" . -}}
{{- include "maestrohub.validate.cluster" . -}}
{{- include "maestrohub.validate.storage" . -}}
{{- include "maestrohub.validate.devices" . -}}
{{- include "maestrohub.validate.files" . -}}
{{- include "maestrohub.validate.stop" . -}}
{{- $_ := include "maestrohub.goMemLimit" . -}}
{{- include "maestrohub.validate.secrets" . -}}
{{- include "maestrohub.validate.apis" . -}}
{{- end }}

{{/* maestrohub.refuse (dict "key" "a.b" "value" x "want" "…"). */}}
{{- define "maestrohub.refuse" -}}
{{- fail (printf "ERROR: %s (%s) must %s" .key (toString .value) .want) -}}
{{- end }}

{{- define "maestrohub.validate.names" -}}
{{- if gt (len .Release.Name) 40 -}}
  {{- include "maestrohub.refuse" (dict "key" "the release's name" "value" .Release.Name "want" "have at most 40 characters: names of objects are made of it") -}}
{{- end -}}
{{- end }}

{{/* Seconds of "10s", "1h30m" or "7d". */}}
{{- define "maestrohub.seconds" -}}
{{- $units := dict "ns" 1e-9 "us" 1e-6 "µs" 1e-6 "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ns|us|µs|ms|s|m|h|d)" (toString .) -1 -}}
  {{- $unit := regexFind "[a-zµ]+$" . -}}
  {{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (index $units $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end }}

{{/* Bytes of "64KiB", "1.5 GiB" or a number. */}}
{{- define "maestrohub.bytes" -}}
{{- $units := dict "" 1.0 "b" 1.0 "kb" 1e3 "mb" 1e6 "gb" 1e9 "tb" 1e12 "kib" 1024.0 "mib" 1048576.0 "gib" 1073741824.0 "tib" 1099511627776.0 -}}
{{- $text := . -}}
{{- if kindIs "float64" . -}}{{- $text = int64 . -}}{{- end -}}
{{- $text = toString $text | lower | nospace -}}
{{- $unit := regexFind "[a-z]*$" $text -}}
{{- if hasKey $units $unit -}}
{{- mulf (trimSuffix $unit $text | float64) (index $units $unit) -}}
{{- else -}}-1{{- end -}}
{{- end }}

{{- define "maestrohub.validate.ranges" -}}
{{- $context := . -}}
{{- range (.Files.Get "files/settings.json" | fromJson).settings -}}
  {{- $value := (printf `{"value": %s}` (include "maestrohub.value" (dict "context" $context "path" .value)) | fromJson).value -}}
  {{- $template := get (dict "duration" "maestrohub.seconds" "bytes" "maestrohub.bytes") .sort -}}
  {{- if and $template (not (kindIs "invalid" $value)) -}}
    {{- $n := 0.0 -}}
    {{- if eq .sort "duration" -}}{{- $n = include "maestrohub.seconds" $value | float64 -}}{{- else -}}{{- $n = include "maestrohub.bytes" $value | float64 -}}{{- end -}}
    {{- $low := .low | default 0.0 | float64 -}}
    {{- if and (or (lt $n $low) (gt $n (float64 .high))) (not (and .zero (eq $n 0.0))) -}}
      {{- if kindIs "float64" $value -}}{{- $value = int64 $value -}}{{- end -}}
      {{- include "maestrohub.refuse" (dict "key" .value "value" $value "want" (printf "be %s" .accepted)) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* uns.config is for what no value sets. */}}
{{- define "maestrohub.validate.settings" -}}
{{- $context := . -}}
{{- $taken := list "replicaId" "modelFile" "clientsFile" "dataDir" "brokerMesh.advertise" "brokerMesh.certFile" "brokerMesh.keyFile" "brokerMesh.caFile" "nats.password" "nats.password_file" "nats.tls.caFile" "nats.tls.certFile" "nats.tls.keyFile" "embeddedBroker.tls.certFile" "embeddedBroker.tls.keyFile" "embeddedBroker.tls.clientCAFile" "http.tls.certFile" "http.tls.keyFile" "historian.timescale.url" "historian.timescale.url_file" -}}
{{- range (.Files.Get "files/settings.json" | fromJson).settings -}}
  {{- $taken = append $taken .key -}}
{{- end -}}
{{- range $key := $taken -}}
  {{- $at := $context.Values.uns.config | default dict -}}
  {{- range splitList "." $key -}}
    {{- if kindIs "map" $at -}}{{- $at = index $at . -}}{{- else -}}{{- $at = "" -}}{{- end -}}
  {{- end -}}
  {{- if and (not (kindIs "invalid" $at)) (ne (toString $at) "") -}}
    {{- include "maestrohub.refuse" (dict "key" (printf "uns.config.%s" $key) "value" $at "want" "not be set: the chart sets it itself, from a value of its own") -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "maestrohub.validate.cluster" -}}
{{- $replicas := include "maestrohub.uns.replicas" . | int -}}
{{- if and .Values.nats.enabled .Values.externalNats.urls -}}
  {{- include "maestrohub.refuse" (dict "key" "externalNats.urls" "value" .Values.externalNats.urls "want" "be empty with nats.enabled: one or the other") -}}
{{- end -}}
{{- if and (gt $replicas 1) (not (include "maestrohub.clustered" .)) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.replicas" "value" $replicas "want" "be 1 without NATS: replicas share their state through it (nats.enabled, or externalNats.urls)") -}}
{{- end -}}
{{- if not .Values.externalNats.urls -}}
  {{- range $key := list "user" "passwordSecretName" "tlsSecretName" -}}
    {{- with index $.Values.externalNats $key -}}
      {{- include "maestrohub.refuse" (dict "key" (printf "externalNats.%s" $key) "value" . "want" "be empty without externalNats.urls, the servers it is for") -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.externalNats.passwordSecretName (not .Values.externalNats.user) -}}
  {{- include "maestrohub.refuse" (dict "key" "externalNats.user" "value" "" "want" "be set with externalNats.passwordSecretName") -}}
{{- end -}}
{{- if and .Values.externalNats.mutual (not .Values.externalNats.tlsSecretName) -}}
  {{- include "maestrohub.refuse" (dict "key" "externalNats.mutual" "value" true "want" "be false without externalNats.tlsSecretName, which holds the certificate") -}}
{{- end -}}
{{- if and .Values.global.natsTLS.mutual (not .Values.global.natsTLS.enabled) -}}
  {{- include "maestrohub.refuse" (dict "key" "global.natsTLS.mutual" "value" true "want" "be false without global.natsTLS.enabled") -}}
{{- end -}}
{{- $budget := .Values.uns.podDisruptionBudget -}}
{{- if and $budget.enabled (gt $replicas 1) (regexMatch "^[0-9]+$" (toString $budget.maxUnavailable)) -}}
  {{- if ge (int $budget.maxUnavailable) $replicas -}}
    {{- include "maestrohub.refuse" (dict "key" "uns.podDisruptionBudget.maxUnavailable" "value" (int $budget.maxUnavailable) "want" (printf "be less than uns.replicas (%d), or a drain may take every replica" $replicas)) -}}
  {{- end -}}
{{- end -}}
{{- if and (not .Values.uns.serviceAccount.create) (not .Values.uns.serviceAccount.name) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.serviceAccount.name" "value" "" "want" "name a ServiceAccount that is there with uns.serviceAccount.create false (default is one)") -}}
{{- end -}}
{{- include "maestrohub.validate.room" . -}}
{{- end }}

{{/* What NATS must have room for: each packet, and a workspace's session log. */}}
{{- define "maestrohub.validate.room" -}}
{{- if .Values.nats.enabled -}}
  {{- $embedded := .Values.uns.mqtt.embedded -}}
  {{- $payload := int64 .Values.nats.config.maxPayload -}}
  {{- $packet := include "maestrohub.bytes" ($embedded.maxPacketBytes | default "1MiB") | float64 -}}
  {{- if gt (addf $packet 16384.0) (float64 $payload) -}}
    {{- include "maestrohub.refuse" (dict "key" "nats.config.maxPayload" "value" $payload "want" (printf "be at least 16384 more than uns.mqtt.embedded.maxPacketBytes (%s): a packet goes through NATS with what the broker says of it" (toString ($embedded.maxPacketBytes | default "1MiB")))) -}}
  {{- end -}}
  {{- $room := include "nats.maxFileStore" .Subcharts.nats | float64 -}}
  {{- if .Values.global.natsAuth.enabled -}}
    {{- $app := (include "maestrohub.natsAuth.app" . | fromJson).jetStream | default dict -}}
    {{- $room = subf $room (divf ($app.max_file | default 0.0 | float64) (include "nats.replicas" .Subcharts.nats | float64)) -}}
  {{- end -}}
  {{- $log := include "maestrohub.bytes" ($embedded.sessionLogMaxBytes | default "256MiB") | float64 -}}
  {{- if gt $log $room -}}
    {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.embedded.sessionLogMaxBytes" "value" $embedded.sessionLogMaxBytes "want" (printf "be at most what a NATS server may store for the broker (%.0f bytes, by nats.config.jetstream.fileStore): each workspace with persistent sessions reserves it on every server" $room)) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "maestrohub.validate.storage" -}}
{{- $replicas := include "maestrohub.uns.replicas" . | int -}}
{{- $timescale := .Values.storage.timescale -}}
{{- $type := .Values.storage.type | default "embedded" -}}
{{- if and (gt $replicas 1) (ne $type "timescale") -}}
  {{- include "maestrohub.refuse" (dict "key" "storage.type" "value" $type "want" (printf "be timescale with uns.replicas %d: an embedded historian cannot be shared" $replicas)) -}}
{{- end -}}
{{- if and (eq $type "timescale") (not $timescale.existingSecret) (not $timescale.bundled.enabled) -}}
  {{- include "maestrohub.refuse" (dict "key" "storage.timescale.existingSecret" "value" "" "want" "name the Secret with the database's URL with storage.type timescale (or, to try out, storage.timescale.bundled.enabled)") -}}
{{- end -}}
{{- if and $timescale.bundled.enabled (ne $type "timescale") -}}
  {{- include "maestrohub.refuse" (dict "key" "storage.timescale.bundled.enabled" "value" true "want" "be false with storage.type embedded") -}}
{{- end -}}
{{- if lt (include "maestrohub.seconds" (.Values.storage.retryBudget | default "30s") | float64) (include "maestrohub.seconds" (.Values.storage.hungWriteTimeout | default "10s") | float64) -}}
  {{- include "maestrohub.refuse" (dict "key" "storage.retryBudget" "value" .Values.storage.retryBudget "want" (printf "be at least storage.hungWriteTimeout (%s)" (toString .Values.storage.hungWriteTimeout))) -}}
{{- end -}}
{{- end }}

{{- define "maestrohub.validate.devices" -}}
{{- $embedded := .Values.uns.mqtt.embedded -}}
{{- $limits := $embedded.limits -}}
{{- $service := .Values.uns.mqtt.service -}}
{{- if and $embedded.tls.disablePlaintext (not $embedded.tls.secretName) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.embedded.tls.secretName" "value" "" "want" "be set with uns.mqtt.embedded.tls.disablePlaintext, or no device could connect") -}}
{{- end -}}
{{- if and $embedded.tls.clientCA (not $embedded.tls.secretName) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.embedded.tls.secretName" "value" "" "want" "be set with uns.mqtt.embedded.tls.clientCA: ca.crt lies in it") -}}
{{- end -}}
{{- if lt (include "maestrohub.seconds" ($limits.authFailureBackoffMax | default "15m") | float64) (include "maestrohub.seconds" ($limits.authFailureBackoff | default "30s") | float64) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.embedded.limits.authFailureBackoffMax" "value" $limits.authFailureBackoffMax "want" (printf "be at least authFailureBackoff (%s)" (toString $limits.authFailureBackoff))) -}}
{{- end -}}
{{- $packet := include "maestrohub.bytes" ($embedded.maxPacketBytes | default "1MiB") | float64 -}}
{{- if lt $packet (include "maestrohub.bytes" ($limits.maxConnectPacketBytes | default "64KiB") | float64) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.embedded.maxPacketBytes" "value" $embedded.maxPacketBytes "want" (printf "be at least limits.maxConnectPacketBytes (%s)" (toString $limits.maxConnectPacketBytes))) -}}
{{- end -}}
{{- if lt (include "maestrohub.bytes" ($embedded.sessionLogMaxBytes | default "256MiB") | float64) (addf $packet 262144.0) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.embedded.sessionLogMaxBytes" "value" $embedded.sessionLogMaxBytes "want" (printf "be at least 256KiB more than maxPacketBytes (%s)" (toString $embedded.maxPacketBytes))) -}}
{{- end -}}
{{- $taken := dict -}}
{{- $ports := dict "uns.http.port" true "uns.mqtt.embedded.mesh.port" (include "maestrohub.clustered" .) "uns.mqtt.embedded.tcpPort" (not $embedded.tls.disablePlaintext) "uns.mqtt.embedded.tlsPort" $embedded.tls.secretName "uns.mqtt.embedded.webSocket.port" $embedded.webSocket.enabled -}}
{{- range $path := keys $ports | sortAlpha -}}
  {{- if index $ports $path -}}
    {{- $port := include "maestrohub.port" (dict "context" $ "path" $path) -}}
    {{- if hasKey $taken $port -}}
      {{- include "maestrohub.refuse" (dict "key" $path "value" $port "want" (printf "not be the port of %s" (index $taken $port))) -}}
    {{- end -}}
    {{- $_ := set $taken $port $path -}}
  {{- end -}}
{{- end -}}
{{- if eq $service.type "ClusterIP" -}}
  {{- with $service.externalTrafficPolicy -}}
    {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.service.externalTrafficPolicy" "value" . "want" "be null with uns.mqtt.service.type ClusterIP") -}}
  {{- end -}}
  {{- range $name, $port := $service.nodePorts -}}
    {{- if $port -}}
      {{- include "maestrohub.refuse" (dict "key" (printf "uns.mqtt.service.nodePorts.%s" $name) "value" (int64 $port) "want" "be null with uns.mqtt.service.type ClusterIP") -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if ne $service.type "LoadBalancer" -}}
  {{- with $service.loadBalancerClass -}}
    {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.service.loadBalancerClass" "value" . "want" "be empty unless uns.mqtt.service.type is LoadBalancer") -}}
  {{- end -}}
  {{- with $service.loadBalancerSourceRanges -}}
    {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.service.loadBalancerSourceRanges" "value" . "want" "be empty unless uns.mqtt.service.type is LoadBalancer: use networkPolicy.mqttFrom") -}}
  {{- end -}}
  {{- if not (kindIs "invalid" $service.allocateLoadBalancerNodePorts) -}}
    {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.service.allocateLoadBalancerNodePorts" "value" $service.allocateLoadBalancerNodePorts "want" "be null unless uns.mqtt.service.type is LoadBalancer") -}}
  {{- end -}}
{{- end -}}
{{- $gateway := .Values.uns.mqtt.gateway -}}
{{- if and $gateway.enabled (not $gateway.parentRefs) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.gateway.parentRefs" "value" "[]" "want" "name a Gateway with uns.mqtt.gateway.enabled") -}}
{{- end -}}
{{- if $gateway.enabled -}}
  {{- $routes := list -}}
  {{- range include "maestrohub.uns.ports" . | fromJsonArray -}}
    {{- if eq (include "maestrohub.gateway.kind" (dict "context" $ "port" .name)) "TCPRoute" -}}{{- $routes = append $routes .name -}}{{- end -}}
  {{- end -}}
  {{- if gt (len $routes) 1 -}}
    {{- range $name := $routes -}}
      {{- if not (index $gateway.listeners $name) -}}
        {{- include "maestrohub.refuse" (dict "key" (printf "uns.mqtt.gateway.listeners.%s" $name) "value" "" "want" (printf "name the Gateway's listener of that port: each of the TCPRoutes for %s would take the connections of every listener" (join " and " $routes))) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $webSocket := $embedded.webSocket -}}
{{- if and $webSocket.ingress.enabled (not $webSocket.enabled) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.embedded.webSocket.ingress.enabled" "value" true "want" "be false without uns.mqtt.embedded.webSocket.enabled: nothing listens") -}}
{{- end -}}
{{- if and $webSocket.ingress.enabled (not $webSocket.ingress.hosts) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.embedded.webSocket.ingress.hosts" "value" "[]" "want" "name a host with uns.mqtt.embedded.webSocket.ingress.enabled: devices must not be answered under every name") -}}
{{- end -}}
{{- if and .Values.uns.http.ingress.enabled (not .Values.uns.http.ingress.hosts) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.http.ingress.hosts" "value" "[]" "want" "name a host with uns.http.ingress.enabled: the page must not answer for every name") -}}
{{- end -}}
{{- end }}

{{- define "maestrohub.validate.files" -}}
{{- if and .Values.uns.model.content .Values.uns.model.existingConfigMap -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.model.existingConfigMap" "value" .Values.uns.model.existingConfigMap "want" "be empty with uns.model.content: one or the other") -}}
{{- end -}}
{{- if and .Values.uns.clients.entries .Values.uns.clients.existingSecret -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.clients.existingSecret" "value" .Values.uns.clients.existingSecret "want" "be empty with uns.clients.entries: one or the other") -}}
{{- end -}}
{{- if and .Values.backup.enabled (not (include "maestrohub.clustered" .)) -}}
  {{- include "maestrohub.refuse" (dict "key" "backup.enabled" "value" true "want" "be false without NATS (nats.enabled or externalNats.urls): a single node keeps its sessions in memory, and there is nothing to save") -}}
{{- end -}}
{{- end }}

{{/* A replica needs at most 25 s for the hand-over, and 5 to be gone. */}}
{{- define "maestrohub.validate.stop" -}}
{{- $needed := add .Values.uns.preStopSeconds 25 5 -}}
{{- if lt (int .Values.uns.terminationGracePeriodSeconds) (int $needed) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.terminationGracePeriodSeconds" "value" (int .Values.uns.terminationGracePeriodSeconds) "want" (printf "be at least %d: preStopSeconds (%d), 25 for the hand-over, 5 to end" (int $needed) (int .Values.uns.preStopSeconds))) -}}
{{- end -}}
{{- end }}
