{{/* uns.replicas, or the broker's default where it is null. */}}
{{- define "maestrohub.uns.replicas" -}}
{{ .Values.uns.replicas | default 1 | int64 }}
{{- end }}

{{/*
The listeners for devices that are open, as [{"name": "mqtt", "port": 1883, "nodePort": null}, …].
*/}}
{{- define "maestrohub.uns.ports" -}}
{{- $embedded := .Values.uns.mqtt.embedded -}}
{{- $node := .Values.uns.mqtt.service.nodePorts -}}
{{- $ports := list -}}
{{- if not $embedded.tls.disablePlaintext -}}
  {{- $ports = append $ports (dict "name" "mqtt" "port" (include "maestrohub.port" (dict "context" . "path" "uns.mqtt.embedded.tcpPort") | int64) "nodePort" $node.mqtt) -}}
{{- end -}}
{{- if $embedded.tls.secretName -}}
  {{- $ports = append $ports (dict "name" "mqtts" "port" (include "maestrohub.port" (dict "context" . "path" "uns.mqtt.embedded.tlsPort") | int64) "nodePort" $node.mqtts) -}}
{{- end -}}
{{- if $embedded.webSocket.enabled -}}
  {{- $ports = append $ports (dict "name" "websocket" "port" (include "maestrohub.port" (dict "context" . "path" "uns.mqtt.embedded.webSocket.port") | int64) "nodePort" $node.websocket) -}}
{{- end -}}
{{- toJson $ports -}}
{{- end }}
