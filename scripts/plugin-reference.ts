import { z } from "zod";
import { PLUGINS } from "../src/app/plugins.ts";

/** The page of all plugin types with their parameters, from the definitions. */
export function pluginsReference(): string {
  const sections = [...PLUGINS]
    .sort((a, b) => a.type.localeCompare(b.type))
    .map((definition) => {
      const schema = z.toJSONSchema(definition.parameters, { io: "input", unrepresentable: "any" }) as {
        properties?: Record<string, { type?: string; default?: unknown; description?: string }>;
      };
      const parameters = Object.entries(schema.properties ?? {}).map(
        ([name, property]) =>
          `| \`${name}\` | ${property.type ?? ""} | ${property.default === undefined ? "" : `\`${JSON.stringify(property.default)}\``} | ${property.description ?? ""} |`,
      );
      return [
        `## ${definition.type}`,
        "",
        `*${definition.kind}.* ${definition.describe}`,
        "",
        ...(parameters.length === 0
          ? ["No parameters."]
          : ["| Parameter | Type | Default | |", "|---|---|---|---|", ...parameters]),
        "",
      ].join("\n");
    });
  return ["# Plugins", "", "The types that a configuration may name.", "", ...sections].join("\n");
}
