{{/*
The plan of `broker secrets ensure`: which Secrets the release needs, and how they are made. What each item means:
broker/secrets/plan.go. Templates make no secret themselves: two renderings are the same, with or without a cluster.
*/}}

{{- define "maestrohub.secrets.name" -}}
{{ .Release.Name }}-secrets
{{- end }}

{{/* Keys tls.crt, tls.key, ca.crt: the authority that signs the mesh certificate. No pod mounts it. */}}
{{- define "maestrohub.meshCA.secret" -}}
{{ include "maestrohub.uns.name" . }}-mesh-ca
{{- end }}

{{/* maestrohub.secrets.dns (dict "service" "x" "namespace" "n" "domain" "cluster.local" "prefix" "*."): the names of a Service, as JSON. */}}
{{- define "maestrohub.secrets.dns" -}}
{{- $name := printf "%s%s" (.prefix | default "") .service -}}
{{- list $name (printf "%s.%s" $name .namespace) (printf "%s.%s.svc" $name .namespace) (printf "%s.%s.svc.%s" $name .namespace .domain) | toJson -}}
{{- end }}

{{- define "maestrohub.clusterDomain" -}}
{{ ((((.Values.nats).config).cluster).routeURLs).k8sClusterDomain | default "cluster.local" }}
{{- end }}

{{/* "true" if the chart's NATS has accounts, or TLS. */}}
{{- define "maestrohub.secrets.natsAuth" -}}
{{- if and .Values.nats.enabled .Values.global.natsAuth.enabled }}true{{ end -}}
{{- end }}

{{- define "maestrohub.secrets.natsTLS" -}}
{{- if and .Values.nats.enabled .Values.global.natsTLS.enabled }}true{{ end -}}
{{- end }}

{{/* The plan as YAML; empty if nothing is needed. */}}
{{- define "maestrohub.secrets.plan" -}}
{{- $own := .Release.Namespace -}}
{{- $deps := include "maestrohub.depsNamespace" . -}}
{{- $domain := include "maestrohub.clusterDomain" . -}}
{{- $renew := .Values.secrets.renew -}}
{{- $stage := .Values.secrets.authorities -}}
{{- $mesh := .Values.uns.mqtt.embedded.mesh -}}
{{- $authorities := list -}}
{{- $passwords := list -}}
{{- $certificates := list -}}
{{- $accounts := list -}}

{{- if and (include "maestrohub.clustered" .) (or $mesh.existingSecret (not .Values.certManager.enabled)) -}}
  {{- $certificate := dict "thing" "mesh certificate" "usages" (list "server" "client") "secret" (dict "namespace" $own "name" (include "maestrohub.meshTLS.secret" .)) -}}
  {{- if $mesh.existingSecret -}}
    {{- $certificates = append $certificates (merge $certificate (dict "existing" true)) -}}
  {{- else -}}
    {{- $ca := dict "namespace" $own "name" (include "maestrohub.meshCA.secret" .) -}}
    {{- $authorities = append $authorities (dict "thing" "mesh authority" "secret" $ca "name" (printf "%s mesh of %s" .Release.Name $own) "days" 36500 "stage" $stage.mesh) -}}
    {{- $certificates = append $certificates (merge $certificate (dict "authority" $ca "name" (include "maestrohub.uns.name" .)
          "dns" (include "maestrohub.secrets.dns" (dict "service" (include "maestrohub.uns.headless" .) "namespace" $own "domain" $domain "prefix" "*.") | fromJsonArray)
          "days" (int64 $mesh.certDurationDays) "renew" $renew.mesh)) -}}
  {{- end -}}
{{- end -}}

{{- if include "maestrohub.secrets.natsAuth" . -}}
  {{- $existing := not .Values.global.natsAuth.create -}}
  {{- $uns := dict "namespace" $own "name" (include "maestrohub.natsAuth.unsSecret" .) -}}
  {{- $sys := dict "namespace" $deps "name" (include "maestrohub.natsAuth.sysSecret" .) -}}
  {{- $passwords = append $passwords (dict "thing" "NATS passwords" "secret" $uns "existing" $existing "keys" (list "broker" "uns") "renew" $renew.natsPasswords) -}}
  {{- $passwords = append $passwords (dict "thing" "NATS system password" "secret" $sys "existing" $existing "keys" (list "sys") "renew" $renew.natsPasswords) -}}
  {{- $accounts = append $accounts (dict "thing" "NATS accounts" "secret" (dict "namespace" $deps "name" (include "maestrohub.natsAuth.serverSecret" .)) "existing" $existing "key" "accounts.conf" "renew" $renew.natsPasswords
        "accounts" (list
          (dict "name" "BROKER" "user" "uns-broker" "password" (dict "secret" $uns "key" "broker") "jetStream" dict)
          (merge (dict "name" "APP" "user" "uns" "password" (dict "secret" $uns "key" "uns")) (include "maestrohub.natsAuth.app" . | fromJson))
          (dict "name" "SYS" "user" "sys" "password" (dict "secret" $sys "key" "sys")))) -}}
{{- end -}}

{{- if and (include "maestrohub.secrets.natsTLS" .) (or (not .Values.global.natsTLS.create) (not .Values.certManager.enabled)) -}}
  {{- $service := dict "service" (include "maestrohub.nats.name" .) "namespace" $deps "domain" $domain -}}
  {{- $pods := dict "service" (include "maestrohub.nats.headless" .) "namespace" $deps "domain" $domain "prefix" "*." -}}
  {{- $names := concat (include "maestrohub.secrets.dns" $service | fromJsonArray) (include "maestrohub.secrets.dns" $pods | fromJsonArray) -}}
  {{- $server := dict "thing" "NATS server certificate" "secret" (dict "namespace" $deps "name" (include "maestrohub.natsTLS.serverSecret" .)) "usages" (list "server" "client") "dns" $names -}}
  {{- $client := dict "thing" "NATS client certificate" "secret" (dict "namespace" $own "name" (include "maestrohub.natsTLS.clientSecret" .)) "usages" (list "client") -}}
  {{- if not .Values.global.natsTLS.create -}}
    {{- /* The names that are used, not all by which a server can be called: yours may come from where short names are not to be had. */ -}}
    {{- $used := list (printf "%s.%s.svc" (include "maestrohub.nats.name" .) $deps) -}}
    {{- $at := include "maestrohub.nats.headless" . -}}
    {{- if ((((.Values.nats).config).cluster).routeURLs).useFQDN -}}{{- $at = printf "%s.%s.svc.%s" $at $deps $domain -}}{{- end -}}
    {{- range $i := until (int (((((.Values.nats).config).cluster).replicas) | default .Values.global.natsReplicas | default 3)) -}}
      {{- $used = append $used (printf "%s-%d.%s" (include "maestrohub.nats.name" $) $i $at) -}}
    {{- end -}}
    {{- $certificates = append $certificates (merge (dict "existing" true "dns" $used) $server) -}}
    {{- $certificates = append $certificates (merge $client (dict "existing" true)) -}}
  {{- else -}}
    {{- $ca := dict "namespace" $deps "name" (include "maestrohub.natsTLS.caSecret" .) -}}
    {{- $days := int64 .Values.global.natsTLS.certDurationDays -}}
    {{- $authorities = append $authorities (dict "thing" "NATS authority" "secret" $ca "name" (printf "%s NATS of %s" .Release.Name $deps) "days" 36500 "stage" $stage.nats) -}}
    {{- $certificates = append $certificates (merge $server (dict "authority" $ca "name" (include "maestrohub.nats.name" .) "days" $days "renew" $renew.natsServer)) -}}
    {{- $certificates = append $certificates (merge $client (dict "authority" $ca "name" (include "maestrohub.uns.name" .) "days" $days "renew" $renew.natsClient)) -}}
  {{- end -}}
{{- end -}}

{{- if and .Values.storage.timescale.bundled.enabled (not .Values.storage.timescale.existingSecret) -}}
  {{- $url := printf "postgres://uns:${password}@%s.%s.svc:%d/uns?sslmode=disable" (include "maestrohub.timescale.name" .) $own (int64 .Values.storage.timescale.port) -}}
  {{- $passwords = append $passwords (dict "thing" "database password" "secret" (dict "namespace" $own "name" (include "maestrohub.timescale.secret" .)) "keys" (list "password") "texts" (dict .Values.storage.timescale.secretKey $url)) -}}
{{- end -}}

{{- if include "maestrohub.test.client" . -}}
  {{- $client := dict "id" "helm-test" "workspace" .Values.tests.workspace "secret" "${secret}" "publish" (list "helm-test/#") "subscribe" (list "helm-test/#") "scopes" (list "uns:read") -}}
  {{- $passwords = append $passwords (dict "thing" "API client of helm test" "secret" (dict "namespace" $own "name" (include "maestrohub.test.secret" .)) "keys" (list "secret")
        "texts" (dict "id" "helm-test" "clients.yaml" (dict "clients" (list $client) | toYaml))) -}}
{{- end -}}

{{- /* Without app.kubernetes.io/instance, by which Argo CD may take them for its own, not find them in the chart, and prune them. */ -}}
{{- $labels := dict "maestrohub.io/release" .Release.Name "app.kubernetes.io/part-of" "maestrohub" -}}
{{- with .Values.global.labels -}}{{- $labels = merge $labels (omit . "app.kubernetes.io/instance" "app.kubernetes.io/managed-by") -}}{{- end -}}
{{- if or $passwords $certificates -}}
{{- dict "labels" $labels "authorities" $authorities "passwords" $passwords "certificates" $certificates "accounts" $accounts | toYaml -}}
{{- end -}}
{{- end }}

{{/*
What account APP may have of JetStream, as the plan has it: {"jetStream": …}. NATS counts every copy of a stream against
its account, on whichever server it lies, so that what is for each server stands there as many times as there are servers.
*/}}
{{- define "maestrohub.natsAuth.app" -}}
{{- $app := .Values.global.natsAuth.app -}}
{{- $nats := .Subcharts.nats -}}
{{- $most := include "nats.maxFileStore" $nats | int64 -}}
{{- $file := div $most 10 -}}
{{- if not (kindIs "invalid" $app.maxFile) -}}
  {{- $file = ternary 0 (include "nats.bytes" $app.maxFile | int64) (eq (toString $app.maxFile) "0") -}}
{{- end -}}
{{- if gt (mul $file 2) $most -}}
  {{- include "maestrohub.refuse" (dict "key" "global.natsAuth.app.maxFile" "value" $app.maxFile "want" (printf "be at most half of what a server may store (%d bytes, by nats.config.jetstream.fileStore): the rest is the broker's" $most)) -}}
{{- end -}}
{{- if $file -}}
  {{- $limits := dict "max_file" (mul $file (include "nats.replicas" $nats | int64)) -}}
  {{- with $app.maxStreams -}}{{- $_ := set $limits "max_streams" (int64 .) -}}{{- end -}}
  {{- dict "jetStream" $limits | toJson -}}
{{- else -}}
  {{- dict | toJson -}}
{{- end -}}
{{- end }}

{{/* What the Job may do in a namespace, as JSON rules. It may read and change what the plan names, and nothing else. Kubernetes cannot restrict create to names. */}}
{{- define "maestrohub.secrets.rules" -}}
{{- $read := list -}}
{{- $change := list -}}
{{- range $kind := list "authorities" "passwords" "certificates" "accounts" -}}
  {{- range index $.plan $kind -}}
    {{- if eq .secret.namespace $.namespace -}}
      {{- if .existing -}}{{- $read = append $read .secret.name -}}{{- else -}}{{- $change = append $change .secret.name -}}{{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $rules := list -}}
{{- with $change -}}
  {{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "secrets") "resourceNames" (uniq . | sortAlpha) "verbs" (list "get" "patch")) -}}
  {{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "secrets") "verbs" (list "create")) -}}
{{- end -}}
{{- with $read -}}
  {{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "secrets") "resourceNames" (uniq . | sortAlpha) "verbs" (list "get")) -}}
{{- end -}}
{{- toJson $rules -}}
{{- end }}

{{/* Annotations of a hook (dict "weight" "-15"). Each is gone once all have succeeded: no right outlives its use. */}}
{{- define "maestrohub.secrets.hook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* The specification of a Job of our image: (dict "context" . "name" "secrets" "serviceAccount" "x" "args" (list …) "env" (list …)). */}}
{{- define "maestrohub.secrets.jobSpec" -}}
{{- $values := .context.Values.secrets -}}
backoffLimit: 2
activeDeadlineSeconds: 600
ttlSecondsAfterFinished: 86400
template:
  metadata:
    labels: {{- include "maestrohub.podLabels" (dict "context" .context "name" .name "labels" $values.podLabels) | nindent 6 }}
    {{- with $values.podAnnotations }}
    annotations: {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    restartPolicy: Never
    serviceAccountName: {{ .serviceAccount }}
    automountServiceAccountToken: true
    enableServiceLinks: false
    securityContext: {{- include "maestrohub.podSecurityContext" .context | nindent 6 }}
    {{- include "maestrohub.imagePullSecrets" .context | nindent 4 }}
    {{- include "maestrohub.placement" $values | nindent 4 }}
    containers:
      - name: secrets
        image: {{ include "maestrohub.broker.image" .context }}
        imagePullPolicy: {{ .context.Values.uns.image.pullPolicy }}
        args: {{- toYaml .args | nindent 10 }}
        {{- with .env }}
        env: {{- toYaml . | nindent 10 }}
        {{- end }}
        # The reason of a refusal is shown by kubectl describe pod, too.
        terminationMessagePolicy: FallbackToLogsOnError
        securityContext: {{- include "maestrohub.containerSecurityContext" .context | nindent 10 }}
        resources: {{- toYaml $values.resources | nindent 10 }}
{{- end }}
