{{/* What values of certificates and passwords cannot be together. */}}
{{- define "maestrohub.validate.secrets" -}}
{{- $manager := .Values.certManager -}}
{{- $tls := include "maestrohub.secrets.natsTLS" . -}}
{{- if and $manager.mqtt.enabled (not $manager.enabled) -}}
  {{- include "maestrohub.refuse" (dict "key" "certManager.mqtt.enabled" "value" true "want" "be false without certManager.enabled") -}}
{{- end -}}
{{- if and $manager.mqtt.enabled (not .Values.uns.mqtt.embedded.tls.secretName) -}}
  {{- include "maestrohub.refuse" (dict "key" "uns.mqtt.embedded.tls.secretName" "value" "" "want" "name the Secret that certManager.mqtt.enabled has made") -}}
{{- end -}}
{{- $nats := and $tls .Values.global.natsTLS.create -}}
{{- if and $manager.enabled (or $nats $manager.mqtt.enabled) (not $manager.issuerRef.name) -}}
  {{- include "maestrohub.refuse" (dict "key" "certManager.issuerRef.name" "value" "" "want" "name the issuer of NATS's and the devices' certificates with certManager.enabled") -}}
{{- end -}}
{{- if and $manager.enabled $nats (eq $manager.issuerRef.kind "Issuer") (ne (include "maestrohub.depsNamespace" .) .Release.Namespace) -}}
  {{- include "maestrohub.refuse" (dict "key" "certManager.issuerRef.kind" "value" "Issuer" "want" (printf "be ClusterIssuer (or another that serves both namespaces) with global.natsTLS: its certificates lie in %s and %s, and an Issuer serves one" .Release.Namespace (include "maestrohub.depsNamespace" .))) -}}
{{- end -}}
{{- if include "maestrohub.secrets.natsAuth" . -}}{{- $_ := include "maestrohub.natsAuth.app" . -}}{{- end -}}
{{- $jobNATS := and $nats (not $manager.enabled) -}}
{{- range $key, $used := dict "mesh" (and (include "maestrohub.clustered" .) (not .Values.uns.mqtt.embedded.mesh.existingSecret) (not $manager.enabled)) "natsServer" $jobNATS "natsClient" $jobNATS "natsPasswords" (and (include "maestrohub.secrets.natsAuth" .) .Values.global.natsAuth.create) -}}
  {{- $word := index $.Values.secrets.renew $key -}}
  {{- if and $word (not $used) -}}
    {{- include "maestrohub.refuse" (dict "key" (printf "secrets.renew.%s" $key) "value" $word "want" "be empty: with these values the chart makes no such thing") -}}
  {{- end -}}
{{- end -}}
{{- range $key, $used := dict "mesh" (and (include "maestrohub.clustered" .) (not .Values.uns.mqtt.embedded.mesh.existingSecret) (not $manager.enabled)) "nats" $jobNATS -}}
  {{- $stage := index $.Values.secrets.authorities $key -}}
  {{- if and $stage (not $used) -}}
    {{- include "maestrohub.refuse" (dict "key" (printf "secrets.authorities.%s" $key) "value" $stage "want" "be empty: with these values the chart makes no such authority") -}}
  {{- end -}}
{{- end -}}
{{- end }}
