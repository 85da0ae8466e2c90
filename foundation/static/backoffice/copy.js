// Puts a button that copies beside every id, key and secret of a page: elements with `data-copy`, the fields of a
// row's page named below, and fields that show a secret once. Nothing is sent anywhere.
"use strict";
(() => {
    const FIELDS = ["id", "key_id", "reference", "native_id", "native_offer_id", "request_id", "prefix", "simulation_group", "live_proposal_id"];
    const SHOWN = FIELDS.map((name) => `.readonly[data-field="${name}"]`).join(", ");
    const SELECTOR = `[data-copy], input[readonly][id^="secret"], ${SHOWN}`;

    async function copy(text) {
        if (navigator.clipboard && window.isSecureContext) {
            return navigator.clipboard.writeText(text);
        }
        // Browsers have no clipboard for pages by plain http: the older way, by a selection.
        const field = document.createElement("textarea");
        field.value = text;
        field.className = "copy-source";
        document.body.append(field);
        field.select();
        const done = document.execCommand("copy");
        field.remove();
        if (!done) {
            throw new Error("not copied");
        }
    }

    function textOf(element) {
        return (element.dataset.copy || element.value || element.textContent || "").trim();
    }

    function addButton(element) {
        const text = textOf(element);
        if (text === "" || text === "-" || text === "—" || element.dataset.hasCopy) {
            return;
        }
        element.dataset.hasCopy = "1";
        const button = document.createElement("button");
        button.type = "button";
        button.className = "copy-button";
        button.title = "Copiar";
        button.setAttribute("aria-label", "Copiar");
        const icon = document.createElement("span");
        icon.className = "material-symbols-outlined";
        icon.setAttribute("aria-hidden", "true");
        icon.textContent = "content_copy";
        const told = document.createElement("span");
        told.className = "copy-told";
        told.setAttribute("role", "status");
        button.append(icon);
        button.addEventListener("click", async () => {
            try {
                await copy(text);
                told.textContent = "Copiado";
            } catch {
                told.textContent = "Não foi possível copiar: selecione o texto";
            }
            setTimeout(() => { told.textContent = ""; }, 3000);
        });
        if (element.classList.contains("readonly")) {
            element.append(button, told);
        } else {
            element.after(button, told);
        }
    }

    document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(SELECTOR).forEach(addButton));
})();
