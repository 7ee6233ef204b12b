import { z } from "zod";
import { gatewaySettings } from "./gateway-settings.ts";

type Json = Readonly<Record<string, unknown>>;

/**
 * The JSON Schema (draft 2020-12) of a gateway.yaml for editors. It accepts errors that only the reader can find, such as two
 * sources of endpoints.
 * @param picker the JSON Schema of an EndpointPickerConfig, for `picker.config`
 */
export function gatewayJsonSchema(picker: Json): Json {
  const { $schema: _dialect, ...schema } = z.toJSONSchema(gatewaySettings, { io: "input", unrepresentable: "any" });
  const { $schema: _same, ...config } = picker;
  const properties = schema.properties as Record<string, Record<string, unknown>>;
  const inside = properties["picker"]!;
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "gateway.yaml of sluice gateway",
    ...schema,
    properties: {
      ...properties,
      picker: { ...inside, properties: { ...(inside["properties"] as object), config } },
    },
  };
}
