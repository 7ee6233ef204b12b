/** The configurations of rivals: one thread, kept connections to clients and servers, no log, answers passed on at once. */

const servers = (endpoints: readonly string[], line: (address: string, index: number) => string): string =>
  endpoints.map((address, index) => `  ${line(address, index)}\n`).join("");

/** nginx with one worker, round robin. */
export function nginxConfig(port: number, endpoints: readonly string[], folder: string): string {
  return `user root;
daemon off;
worker_processes 1;
error_log stderr error;
pid ${folder}/nginx.pid;
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_max_body_size 64m;
  client_body_buffer_size 1m;
  ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(" ")}
  upstream servers {
${servers(endpoints, (address) => `  server ${address};`)}    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=1024;
    location / {
      proxy_pass http://servers;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }
  }
}
`;
}

/** haproxy with one thread, round robin. */
export function haproxyConfig(port: number, endpoints: readonly string[]): string {
  return `global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  http-reuse always
frontend clients
  bind 127.0.0.1:${port} backlog 1024
  default_backend servers
backend servers
  balance roundrobin
${servers(endpoints, (address, index) => `server s${index} ${address} check`)}`;
}

/**
 * The program for Python that starts sglang-router's router with its own options. Its launcher would need five more packages for a
 * stand-in of the router that is not used here.
 */
export const SGLANG_LAUNCHER = `
import argparse
from sglang_router.router import Router
from sglang_router.router_args import RouterArgs
parser = argparse.ArgumentParser()
RouterArgs.add_cli_args(parser, use_router_prefix=False)
Router.from_args(RouterArgs.from_cli_args(parser.parse_args())).start()
`;

/** LiteLLM's proxy: one model group with a deployment for each server, without retries and without a database. */
export function litellmConfig(model: string, endpoints: readonly string[]): string {
  return JSON.stringify({
    model_list: endpoints.map((address) => ({
      model_name: model,
      litellm_params: { model: `hosted_vllm/${model}`, api_base: `http://${address}/v1`, api_key: "none" },
    })),
    router_settings: { routing_strategy: "simple-shuffle", num_retries: 0 },
    // It refuses to start without a key; no proxy of the comparison has one.
    general_settings: { dangerously_permit_weak_or_unset_master_key: true },
    litellm_settings: { telemetry: false, request_timeout: 600 },
  });
}

/** The program for Python that starts LiteLLM's proxy with its own options. */
export const LITELLM_LAUNCHER = "from litellm import run_server; run_server()";

/** The reference's picker reads its endpoints from a file; scorers and weights are those of its chart. */
export function referencePickerConfig(endpointsFile: string): string {
  return `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- { name: endpoints, type: file-discovery, parameters: { path: "${endpointsFile}" } }
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: metrics-data-source
- type: core-metrics-extractor
schedulingProfiles:
- name: default
  plugins:
  - { pluginRef: queue-scorer, weight: 2 }
  - { pluginRef: kv-cache-utilization-scorer, weight: 2 }
  - { pluginRef: prefix-cache-scorer, weight: 3 }
dataLayer:
  discovery: { pluginRef: endpoints }
`;
}
