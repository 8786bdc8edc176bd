"use strict";

// Calls go to where this page came from, whatever path a proxy put before it.
const here = new URL(".", window.location.href);

async function show() {
  const answer = await fetch(new URL("openapi.json", here));
  if (!answer.ok) {
    throw new Error(`openapi.json answers ${answer.status}`);
  }
  const spec = await answer.json();
  spec.servers = [{ url: here.href.replace(/\/$/, "") }];
  window.SwaggerUIBundle({
    spec,
    dom_id: "#reference",
    deepLinking: true,
    displayOperationId: true,
    defaultModelsExpandDepth: 0,
    // The key of "Authorize" ends with the page, and nobody else is asked whether the document is valid.
    persistAuthorization: false,
    validatorUrl: null,
    queryConfigEnabled: false,
  });
}

show().catch((error) => {
  document.getElementById("reference").textContent = `The reference cannot be shown: ${error.message}. Reload the page to try again.`;
});
