/** The configuration of the demo's first half: a picker that looks at nothing. */
export const ROUND_ROBIN = `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: round-robin-picker
schedulingProfiles:
- name: round-robin
  plugins:
  - pluginRef: round-robin-picker
`;
