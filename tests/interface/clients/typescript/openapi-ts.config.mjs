// An SDK with a function for every operation, which checks every request and every answer against the document.
export default {
  input: "openapi.json",
  output: { path: "sdk", module: { extension: ".js" } },
  logs: { file: false },
  plugins: ["@hey-api/client-fetch", "@hey-api/typescript", "zod", { name: "@hey-api/sdk", validator: true }],
};
