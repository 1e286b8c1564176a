{{- define "nats.pod" -}}
{{- $store := .Values.config.jetstream.fileStore -}}
serviceAccountName: {{ include "nats.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false
# The reloader signals the server.
shareProcessNamespace: {{ .Values.reloader.enabled }}
terminationGracePeriodSeconds: {{ .Values.podTemplate.terminationGracePeriodSeconds }}
{{- with .Values.podTemplate.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with (.Values.global).imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- if not (.Values.global).openShift }}
  runAsUser: {{ .Values.podTemplate.runAsUser }}
  runAsGroup: {{ .Values.podTemplate.runAsUser }}
  fsGroup: {{ .Values.podTemplate.runAsUser }}
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- with include "nats.affinity" . }}
affinity:
  {{- . | nindent 2 }}
{{- end }}
{{- with .Values.podTemplate.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range $key, $constraint := . }}
  - topologyKey: {{ $key }}
    labelSelector:
      matchLabels:
        {{- include "nats.selectorLabels" $ | nindent 8 }}
    {{- toYaml $constraint | nindent 4 }}
{{- end }}
{{- end }}
{{- with .Values.podTemplate.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podTemplate.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  {{- $server := include "nats.server" . | fromYaml }}
  {{- if $server.Error }}{{ fail $server.Error }}{{ end }}
  {{- list (mustMergeOverwrite $server (deepCopy .Values.container.merge)) | toYaml | nindent 2 }}
  {{- if .Values.reloader.enabled }}
  - name: reloader
    image: {{ include "nats.image" (dict "context" . "image" .Values.reloader.image) }}
    imagePullPolicy: {{ .Values.reloader.image.pullPolicy }}
    args:
      - -pid
      - /var/run/nats/nats.pid
      - -config
      - /etc/nats/nats.conf
      {{- if include "nats.auth" . }}
      - -config
      - /etc/nats/accounts.conf
      {{- end }}
      {{- if include "nats.tls" . }}
      - -config
      - /etc/nats/tls/tls.crt
      - -config
      - /etc/nats/tls/tls.key
      - -config
      - /etc/nats/tls/ca.crt
      {{- end }}
    resources:
      {{- toYaml .Values.reloader.resources | nindent 6 }}
    securityContext:
      {{- include "nats.containerSecurityContext" . | nindent 6 }}
    volumeMounts:
      - name: config
        mountPath: /etc/nats
        readOnly: true
      - name: pid
        mountPath: /var/run/nats
  {{- end }}
  {{- if .Values.promExporter.enabled }}
  - name: prom-exporter
    image: {{ include "nats.image" (dict "context" . "image" .Values.promExporter.image) }}
    imagePullPolicy: {{ .Values.promExporter.image.pullPolicy }}
    args:
      - -port={{ .Values.promExporter.port }}
      - -connz
      - -routez
      - -subz
      - -varz
      - -healthz
      - -jsz=all
      - -prefix=nats
      - -use_internal_server_id
      - http://localhost:8222/
    ports:
      - name: prom-metrics
        containerPort: {{ .Values.promExporter.port }}
    resources:
      {{- toYaml .Values.promExporter.resources | nindent 6 }}
    securityContext:
      {{- include "nats.containerSecurityContext" . | nindent 6 }}
  {{- end }}
volumes:
  # One directory, refreshed as a whole when the ConfigMap or a Secret changes.
  - name: config
    projected:
      # The group of the pod reads the keys; nobody else does.
      defaultMode: 0440
      sources:
        - configMap:
            name: {{ include "nats.configName" . }}
        {{- if include "nats.auth" . }}
        - secret:
            name: {{ .Values.global.natsAuth.secretName }}
            items:
              - key: accounts.conf
                path: accounts.conf
        {{- end }}
        {{- if include "nats.tls" . }}
        - secret:
            name: {{ .Values.global.natsTLS.serverSecretName }}
            items:
              - key: ca.crt
                path: tls/ca.crt
              - key: tls.crt
                path: tls/tls.crt
              - key: tls.key
                path: tls/tls.key
        {{- end }}
  - name: pid
    emptyDir:
      medium: Memory
      sizeLimit: 1Mi
  {{- if not $store.pvc.enabled }}
  - name: data
    emptyDir:
      sizeLimit: {{ $store.pvc.size }}
  {{- end }}
{{- end }}

{{/* Affinity with the servers kept apart, merged with the user's. */}}
{{- define "nats.affinity" -}}
{{- $term := dict "labelSelector" (dict "matchLabels" (include "nats.selectorLabels" . | fromYaml)) "topologyKey" "kubernetes.io/hostname" -}}
{{- $apart := dict -}}
{{- if eq .Values.podTemplate.antiAffinity "required" -}}
  {{- $apart = dict "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) -}}
{{- else if eq .Values.podTemplate.antiAffinity "preferred" -}}
  {{- $apart = dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term))) -}}
{{- end -}}
{{- with merge (deepCopy .Values.podTemplate.affinity) $apart -}}{{ toYaml . }}{{- end -}}
{{- end }}

{{- define "nats.server" -}}
name: nats
image: {{ include "nats.image" (dict "context" . "image" .Values.container.image "tag" (printf "%s-alpine" .Chart.AppVersion)) }}
imagePullPolicy: {{ .Values.container.image.pullPolicy }}
command: [nats-server]
args: [--config, /etc/nats/nats.conf]
ports:
  - name: nats
    containerPort: 4222
  - name: cluster
    containerPort: 6222
  - name: monitor
    containerPort: 8222
env:
  - name: POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  # In quotes: NATS reads a variable as it reads its configuration, and a name like 12-nats-0 as a date.
  - name: SERVER_NAME
    value: '"$(POD_NAME)"'
  {{- with ((.Values.container.resources).limits).memory }}
  # Below the limit, so that the server collects its garbage before the kernel ends it.
  - name: GOMEMLIMIT
    value: {{ div (mul (int64 (include "nats.bytes" .)) 80) 104857600 }}MiB
  {{- end }}
  {{- with .Values.container.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
# Started: everything stored here is current, so that a rolling update, which waits for it, never takes the second server
# away while the first still catches up. An hour, because a server that catches up must not be killed for it; one that is
# not current for longer is an alert, not a restart. One consumer of another service that NATS cannot restore keeps a
# server from starting: then container.merge.startupProbe.httpGet.path=/healthz?js-meta-only=true until it is removed.
startupProbe:
  httpGet:
    path: /healthz
    port: monitor
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 1800
# Ready: its ports are open. A server that is not current serves its clients over the others all the same.
readinessProbe:
  httpGet:
    path: /healthz?js-server-only=true
    port: monitor
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
# Alive: its ports are open. A full disk turns JetStream off and wants a person, not a restart.
livenessProbe:
  httpGet:
    path: /healthz?js-server-only=true
    port: monitor
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
lifecycle:
  preStop:
    exec:
      # Lame duck: leaderships move, then clients are sent away a few at a time. Returns at once; the SIGTERM that follows is ignored meanwhile.
      command: [nats-server, -sl=ldm=/var/run/nats/nats.pid]
resources:
  {{- toYaml .Values.container.resources | nindent 2 }}
securityContext:
  {{- include "nats.containerSecurityContext" . | nindent 2 }}
volumeMounts:
  - name: config
    mountPath: /etc/nats
    readOnly: true
  - name: pid
    mountPath: /var/run/nats
  - name: data
    mountPath: {{ .Values.config.jetstream.fileStore.dir }}
{{- end }}

{{- define "nats.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
capabilities:
  drop: [ALL]
{{- end }}
