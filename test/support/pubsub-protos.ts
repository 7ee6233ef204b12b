import { createRequire } from "node:module";
import { Metadata, type MethodDefinition, type ServiceDefinition, type StatusObject } from "@grpc/grpc-js";
import protobuf from "protobufjs";

const root = protobuf.Root.fromJSON(
  createRequire(import.meta.url)("@google-cloud/pubsub/build/protos/protos.json") as protobuf.INamespace,
);

/** google.rpc.Status with one ErrorInfo, which carries what became of single ack ids. */
const rpc = protobuf.Root.fromJSON({
  nested: {
    Status: {
      fields: {
        code: { id: 1, type: "int32" },
        message: { id: 2, type: "string" },
        details: { id: 3, rule: "repeated", type: "Any" },
      },
    },
    Any: { fields: { typeUrl: { id: 1, type: "string" }, value: { id: 2, type: "bytes" } } },
    ErrorInfo: {
      fields: {
        reason: { id: 1, type: "string" },
        domain: { id: 2, type: "string" },
        metadata: { id: 3, keyType: "string", type: "string" } as protobuf.IMapField,
      },
    },
  },
});

/** A service of google.pubsub.v1 as a gRPC server takes it, from the protos that ship with Google's client. */
export function pubsubService(name: "Publisher" | "Subscriber"): ServiceDefinition {
  const service = root.lookupService(`google.pubsub.v1.${name}`);
  const methods: Record<string, MethodDefinition<object, object>> = {};
  for (const method of service.methodsArray) {
    method.resolve();
    const request = method.resolvedRequestType!;
    const response = method.resolvedResponseType!;
    methods[method.name] = {
      path: `/google.pubsub.v1.${name}/${method.name}`,
      requestStream: Boolean(method.requestStream),
      responseStream: Boolean(method.responseStream),
      requestSerialize: (value) => Buffer.from(request.encode(request.fromObject(value)).finish()),
      requestDeserialize: (bytes) => request.toObject(request.decode(bytes), { defaults: true, longs: Number }),
      responseSerialize: (value) => Buffer.from(response.encode(response.fromObject(value)).finish()),
      responseDeserialize: (bytes) => response.toObject(response.decode(bytes), { defaults: true, longs: Number }),
    };
  }
  return methods;
}

/** A gRPC error that names ack ids, as subscriptions with exactly-once delivery answer. */
export function ackError(code: number, ackIds: Readonly<Record<string, string>>): Partial<StatusObject> {
  const message = "some acknowledgement ids failed";
  const ErrorInfo = rpc.lookupType("ErrorInfo");
  const Status = rpc.lookupType("Status");
  const info = ErrorInfo.encode(ErrorInfo.fromObject({ domain: "pubsub.googleapis.com", metadata: ackIds })).finish();
  const details = [{ typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value: info }];
  const metadata = new Metadata();
  metadata.set(
    "grpc-status-details-bin",
    Buffer.from(Status.encode(Status.fromObject({ code, message, details })).finish()),
  );
  return { code, details: message, metadata };
}
