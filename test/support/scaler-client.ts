import * as grpc from "@grpc/grpc-js";
import protobuf from "protobufjs";

/** KEDA's external scaler as an independent client knows it: the fields of its published interface. */
const PROTO = `
syntax = "proto3";
package externalscaler;
message ScaledObjectRef { string name = 1; string namespace = 2; map<string, string> scalerMetadata = 3; }
message IsActiveResponse { bool result = 1; }
message MetricSpec { string metricName = 1; int64 targetSize = 2; double targetSizeFloat = 3; }
message GetMetricSpecResponse { repeated MetricSpec metricSpecs = 1; }
message GetMetricsRequest { ScaledObjectRef scaledObjectRef = 1; string metricName = 2; }
message MetricValue { string metricName = 1; int64 metricValue = 2; double metricValueFloat = 3; }
message GetMetricsResponse { repeated MetricValue metricValues = 1; }
`;
const { root } = protobuf.parse(PROTO, { keepCase: true });

/** A type of KEDA's interface, by its name. */
export function scalerType(name: string): protobuf.Type {
  return root.lookupType(`externalscaler.${name}`);
}

/** A message as protobufjs writes it. */
export function encodeScaler(type: string, value: object): Buffer {
  const message = scalerType(type);
  return Buffer.from(message.encode(message.fromObject(value)).finish());
}

/** A message as protobufjs reads it, with numbers for 64-bit integers and with defaults. */
export function decodeScaler<T>(type: string, bytes: Uint8Array): T {
  const message = scalerType(type);
  return message.toObject(message.decode(bytes), { longs: Number, defaults: true }) as T;
}

/** Metadata of a trigger. */
export type Metadata = Readonly<Record<string, string>>;

/** The types of requests and answers by method. */
const METHODS = {
  IsActive: ["ScaledObjectRef", "IsActiveResponse"],
  StreamIsActive: ["ScaledObjectRef", "IsActiveResponse"],
  GetMetricSpec: ["ScaledObjectRef", "GetMetricSpecResponse"],
  GetMetrics: ["GetMetricsRequest", "GetMetricsResponse"],
} as const;

/** Asks a scaler as KEDA does: with the gRPC library, and each call with the metadata of the trigger. */
export class ScalerClient {
  readonly #client: grpc.Client;
  readonly #ref: object;

  constructor(address: string, scalerMetadata: Metadata, ca?: string) {
    const credentials =
      ca === undefined ? grpc.credentials.createInsecure() : grpc.credentials.createSsl(Buffer.from(ca));
    // The library takes no IP address as the name of a TLS server.
    this.#client = new grpc.Client(address, credentials, { "grpc.ssl_target_name_override": "localhost" });
    this.#ref = { name: "servers", namespace: "llm", scalerMetadata: { scalerAddress: address, ...scalerMetadata } };
  }

  async isActive(): Promise<boolean> {
    return (await this.#unary<{ result: boolean }>("IsActive", this.#ref)).result;
  }

  /** The target of the only metric. */
  async target(): Promise<{ metricName: string; targetSize: number; targetSizeFloat: number }> {
    type Answer = { metricSpecs: { metricName: string; targetSize: number; targetSizeFloat: number }[] };
    const { metricSpecs } = await this.#unary<Answer>("GetMetricSpec", this.#ref);
    return metricSpecs[0]!;
  }

  /** The present value of the only metric, as KEDA asks for it: by the name from the specification. */
  async value(): Promise<number> {
    const { metricName } = await this.target();
    type Answer = { metricValues: { metricName: string; metricValueFloat: number }[] };
    const { metricValues } = await this.#unary<Answer>("GetMetrics", { scaledObjectRef: this.#ref, metricName });
    return metricValues.find((value) => value.metricName === metricName)!.metricValueFloat;
  }

  /** Opens StreamIsActive. `states` grows; `ended` resolves with the status at the end. */
  watch(): { readonly states: boolean[]; readonly ended: Promise<{ code: number; details: string }>; cancel(): void } {
    const states: boolean[] = [];
    const call = this.#client.makeServerStreamRequest(
      ...this.#method<{ result: boolean }>("StreamIsActive"),
      this.#ref,
    );
    call.on("data", ({ result }: { result: boolean }) => states.push(result));
    call.on("error", () => {});
    const ended = new Promise<{ code: number; details: string }>((resolve) => call.on("status", resolve));
    return { states, ended, cancel: () => call.cancel() };
  }

  close(): void {
    this.#client.close();
  }

  #method<T>(name: keyof typeof METHODS) {
    const [asked, answered] = METHODS[name];
    return [
      `/externalscaler.ExternalScaler/${name}`,
      (value: object) => encodeScaler(asked, value),
      (bytes: Buffer) => decodeScaler<T>(answered, bytes),
    ] as const;
  }

  #unary<T>(name: keyof typeof METHODS, request: object): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(...this.#method<T>(name), request, (error, answer) =>
        error === null ? resolve(answer!) : reject(error),
      );
    });
  }
}
