{{- define "maestrohub.backup.name" -}}
{{ include "maestrohub.uns.name" . }}-backup
{{- end }}

{{- define "maestrohub.restore.name" -}}
{{ include "maestrohub.uns.name" . }}-restore
{{- end }}

{{- define "maestrohub.backup.claim" -}}
{{ .Values.backup.persistence.existingClaim | default (include "maestrohub.backup.name" .) }}
{{- end }}

{{/* Where NATS is, as the backup command takes it: a list in JSON. */}}
{{- define "maestrohub.backup.reach" -}}
{{- $args := list -}}
{{- range splitList "\n" (include "maestrohub.natsURLs" .) -}}
  {{- $args = append $args (printf "--server=%s" .) -}}
{{- end -}}
{{- if .Values.nats.enabled -}}
  {{- if .Values.global.natsAuth.enabled -}}
    {{- $args = concat $args (list "--user=uns-broker" "--password-file=/etc/maestrohub/nats-auth/password") -}}
  {{- end -}}
{{- else -}}
  {{- with .Values.externalNats.user -}}{{- $args = append $args (printf "--user=%s" .) -}}{{- end -}}
  {{- if .Values.externalNats.passwordSecretName -}}{{- $args = append $args "--password-file=/etc/maestrohub/nats-auth/password" -}}{{- end -}}
{{- end -}}
{{- if include "maestrohub.natsTLSSecret" . -}}
  {{- $args = append $args "--tlsca=/etc/maestrohub/nats-tls/ca.crt" -}}
  {{- if ternary .Values.global.natsTLS.mutual .Values.externalNats.mutual .Values.nats.enabled -}}
    {{- $args = concat $args (list "--tlscert=/etc/maestrohub/nats-tls/tls.crt" "--tlskey=/etc/maestrohub/nats-tls/tls.key") -}}
  {{- end -}}
{{- end -}}
{{- toJson $args -}}
{{- end }}

{{/* maestrohub.backup.jobTemplate (dict "context" . "args" list "retries" 2). */}}
{{- define "maestrohub.backup.jobTemplate" -}}
{{- $values := .context.Values -}}
metadata:
  labels: {{- include "maestrohub.labels" (dict "context" .context "name" "uns-backup") | nindent 4 }}
spec:
  backoffLimit: {{ .retries }}
  activeDeadlineSeconds: {{ int64 $values.backup.activeDeadlineSeconds }}
  template:
    metadata:
      labels: {{- include "maestrohub.podLabels" (dict "context" .context "name" "uns-backup" "labels" $values.backup.podLabels) | nindent 8 }}
      {{- with $values.backup.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ include "maestrohub.uns.serviceAccount" .context }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      securityContext: {{- include "maestrohub.podSecurityContext" .context | nindent 8 }}
      {{- include "maestrohub.imagePullSecrets" .context | nindent 6 }}
      {{- include "maestrohub.placement" $values.backup | nindent 6 }}
      containers:
        - name: backup
          image: {{ include "maestrohub.broker.image" .context }}
          imagePullPolicy: {{ $values.uns.image.pullPolicy }}
          args:
            {{- concat .args (include "maestrohub.backup.reach" .context | fromJsonArray) | toYaml | nindent 12 }}
          resources: {{- toYaml $values.backup.resources | nindent 12 }}
          securityContext: {{- include "maestrohub.containerSecurityContext" .context | nindent 12 }}
          volumeMounts:
            - {name: backup, mountPath: /backup}
            {{- if include "maestrohub.backup.password" .context }}
            - {name: nats-auth, mountPath: /etc/maestrohub/nats-auth, readOnly: true}
            {{- end }}
            {{- if include "maestrohub.natsTLSSecret" .context }}
            - {name: nats-tls, mountPath: /etc/maestrohub/nats-tls, readOnly: true}
            {{- end }}
      volumes:
        - name: backup
          persistentVolumeClaim:
            claimName: {{ include "maestrohub.backup.claim" .context }}
        {{- with include "maestrohub.backup.password" .context | fromJson }}
        {{- if .name }}
        - name: nats-auth
          secret:
            secretName: {{ .name }}
            defaultMode: 0440
            items:
              - {key: {{ .key }}, path: password}
        {{- end }}
        {{- end }}
        {{- with include "maestrohub.natsTLSSecret" .context }}
        - name: nats-tls
          secret:
            secretName: {{ . }}
            defaultMode: 0440
        {{- end }}
{{- end }}

{{/* Secret and key of the password, as JSON; empty: none. */}}
{{- define "maestrohub.backup.password" -}}
{{- if .Values.nats.enabled -}}
  {{- if .Values.global.natsAuth.enabled -}}{{- dict "name" (include "maestrohub.natsAuth.unsSecret" .) "key" "broker" | toJson -}}{{- end -}}
{{- else if .Values.externalNats.passwordSecretName -}}
  {{- dict "name" .Values.externalNats.passwordSecretName "key" .Values.externalNats.passwordSecretKey | toJson -}}
{{- end -}}
{{- end }}
