/** The two names of each file of TLS in a configuration: first that of gates, then that of transports. Both take both. */
export const TLS_NAMES = {
  ca: ["tls_ca_file", "tls_ca_cert"],
  cert: ["tls_cert_file", "tls_cert"],
  key: ["tls_key_file", "tls_key"],
} as const;
