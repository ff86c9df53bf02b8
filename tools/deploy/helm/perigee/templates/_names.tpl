{{/* Name of a part of the release: dict "root" $ "part" "master" */}}
{{- define "perigee.name" -}}
{{- printf "%s-%s" (.root.Release.Name | trunc 50 | trimSuffix "-") .part -}}
{{- end -}}

{{- define "perigee.selector" -}}
app.kubernetes.io/name: perigee
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "perigee.labels" -}}
{{ include "perigee.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "perigee.image" -}}
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{/* What every pod that needs no rights has: what Pod Security "restricted" asks for. */}}
{{- define "perigee.podSecurity" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Where pods go: the values of a part. */}}
{{- define "perigee.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Mebibytes of a size such as 40Gi or 512Mi. */}}
{{- define "perigee.mebibytes" -}}
{{- if hasSuffix "Gi" . -}}
{{- mul (trimSuffix "Gi" . | int) 1024 -}}
{{- else -}}
{{- trimSuffix "Mi" . | int -}}
{{- end -}}
{{- end -}}

{{/* "true" if the stores have disks: .Values */}}
{{- define "perigee.hasDisk" -}}
{{- if and .store.disk.hostPath .store.disk.claimSize -}}
{{- fail "store.disk: name a hostPath or a claimSize, not both" -}}
{{- end -}}
{{- if and .store.disk.claimSize (ne .store.kind "StatefulSet") -}}
{{- fail "store.disk.claimSize needs store.kind StatefulSet; a DaemonSet takes store.disk.hostPath" -}}
{{- end -}}
{{- if or .store.disk.hostPath .store.disk.claimSize -}}true
{{- else if .store.disk.keySecret -}}
{{- fail "store.disk.keySecret needs a disk: name a hostPath or a claimSize" -}}
{{- end -}}
{{- end -}}
