{{/*
nats.conf. It is made as a map, so that config.merge can go over it, and written as JSON,
which is valid there. "<< x >>" becomes x without quotes.
*/}}

{{/* What JetStream may store on a server, in bytes. */}}
{{- define "nats.maxFileStore" -}}
{{- $store := .Values.config.jetstream.fileStore -}}
{{- $size := int64 (include "nats.bytes" $store.pvc.size) -}}
{{- if $store.maxSize -}}
{{- $max := int64 (include "nats.bytes" $store.maxSize) -}}
{{- if gt (mul $max 100) (mul $size 95) -}}
{{- fail (printf "ERROR: nats.config.jetstream.fileStore.maxSize (%s) must be at most 95 %% of fileStore.pvc.size (%s): Raft's files come on top, and a server whose disk is full turns JetStream off" $store.maxSize $store.pvc.size) -}}
{{- end -}}
{{- $max -}}
{{- else -}}
{{- div (mul $size 80) 100 -}}
{{- end -}}
{{- end }}

{{- define "nats.routes" -}}
{{- $domain := include "nats.headless" . -}}
{{- if .Values.config.cluster.routeURLs.useFQDN -}}
{{- $domain = printf "%s.%s.svc.%s" $domain (include "nats.namespace" .) .Values.config.cluster.routeURLs.k8sClusterDomain -}}
{{- end -}}
{{- $routes := list -}}
{{- range $i := until (int (include "nats.replicas" .)) -}}
{{- $routes = append $routes (printf "%s://%s-%d.%s:6222" (ternary "tls" "nats" (eq (include "nats.tls" $) "true")) (include "nats.name" $) $i $domain) -}}
{{- end -}}
{{- toJson $routes -}}
{{- end }}

{{/* A tls block: the certificate serves clients and other servers alike. */}}
{{- define "nats.tlsBlock" -}}
{{- dict "cert_file" "/etc/nats/tls/tls.crt" "key_file" "/etc/nats/tls/tls.key" "ca_file" "/etc/nats/tls/ca.crt" "verify" .verify "timeout" .timeout | toJson -}}
{{- end }}

{{- define "nats.config" -}}
{{- $c := .Values.config -}}
{{- $conf := dict
  "server_name" "<< $SERVER_NAME >>"
  "port" 4222
  "http_port" 8222
  "pid_file" "/var/run/nats/nats.pid"
  "max_payload" (int $c.maxPayload)
  "authorization" (dict "timeout" (int $c.authorizationTimeout))
  "lame_duck_duration" (printf "%ds" (int $c.lameDuck.duration))
  "lame_duck_grace_period" (printf "%ds" (int $c.lameDuck.gracePeriod))
  "jetstream" (dict
    "store_dir" $c.jetstream.fileStore.dir
    "max_file_store" (int64 (include "nats.maxFileStore" .))
    "max_memory_store" 0
    "sync_interval" $c.jetstream.syncInterval)
-}}
{{- if gt (int (include "nats.replicas" .)) 1 -}}
{{- $cluster := dict "name" $c.cluster.name "port" 6222 "no_advertise" $c.cluster.noAdvertise "routes" (include "nats.routes" . | fromJsonArray) -}}
{{- if include "nats.tls" . -}}
{{- $_ := set $cluster "tls" (include "nats.tlsBlock" (dict "verify" true "timeout" 30) | fromJson) -}}
{{- end -}}
{{- $_ := set $conf "cluster" $cluster -}}
{{- end -}}
{{- if include "nats.tls" . -}}
{{- $_ := set $conf "tls" (include "nats.tlsBlock" (dict "verify" .Values.global.natsTLS.mutual "timeout" (int $c.authorizationTimeout)) | fromJson) -}}
{{- end -}}
{{- if include "nats.auth" . -}}
{{- $_ := set $conf "system_account" "SYS" -}}
{{- end -}}
{{- $conf = mustMergeOverwrite $conf (deepCopy $c.merge) -}}
{{- range $key, $value := $conf }}
{{ $key }}: {{ include "nats.value" $value }}
{{- end }}
{{- if include "nats.auth" . }}
# The accounts and their users: BROKER, which only the broker joins, APP and SYS.
include accounts.conf
{{- end }}
{{- end }}

{{/* JSON, but for what Helm escapes without need and for expressions. */}}
{{- define "nats.value" -}}
{{- $json := toPrettyJson . | replace "\\u003c" "<" | replace "\\u003e" ">" | replace "\\u0026" "&" -}}
{{- regexReplaceAll "\"<< *(.*?) *>>\"" $json "${1}" -}}
{{- end }}

{{/* What no schema can say. */}}
{{- define "nats.validate" -}}
{{- $needed := add (int .Values.config.lameDuck.duration) 20 -}}
{{- if lt (int .Values.podTemplate.terminationGracePeriodSeconds) (int $needed) -}}
{{- fail (printf "ERROR: nats.podTemplate.terminationGracePeriodSeconds (%d) must be at least config.lameDuck.duration (%d) + 20: a server would be killed before its clients have left it" (int .Values.podTemplate.terminationGracePeriodSeconds) (int .Values.config.lameDuck.duration)) -}}
{{- end -}}
{{- if ge (int .Values.config.lameDuck.gracePeriod) (int .Values.config.lameDuck.duration) -}}
{{- fail (printf "ERROR: nats.config.lameDuck.gracePeriod (%d) must be less than config.lameDuck.duration (%d)" (int .Values.config.lameDuck.gracePeriod) (int .Values.config.lameDuck.duration)) -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.enabled) (not .Values.serviceAccount.name) -}}
{{- fail "ERROR: nats.serviceAccount.name () must name a ServiceAccount that is there with nats.serviceAccount.enabled false (default is one)" -}}
{{- end -}}
{{- if and ((.Values.global).natsTLS).mutual (not (include "nats.tls" .)) -}}
{{- fail "ERROR: global.natsTLS.mutual needs global.natsTLS.enabled: there is no mutual TLS without TLS" -}}
{{- end -}}
{{- end }}
