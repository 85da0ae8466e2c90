// What the theme's templates leave out for people who use a screen reader or no mouse. Icons are words in a font
// ("dashboard"): they are hidden from screen readers, or named where they act. What only a click opens is opened by the
// keyboard too. Frames that scroll are named in Portuguese.
"use strict";
(() => {
    const ICON = ".material-symbols-outlined";
    const PRESSED = 'span[x-on\\:click], div[x-on\\:click="openUserLinks = !openUserLinks"]';
    const FRAME = '.simplebar-content-wrapper[aria-label="scrollable content"]';
    const MENU = "Mostrar ou esconder o menu";

    function each(root, selector, act) {
        if (root.matches(selector)) {
            act(root);
        }
        root.querySelectorAll(selector).forEach(act);
    }

    function makeButton(element) {
        element.setAttribute("role", "button");
        element.tabIndex = 0;
        if (element.matches(ICON)) {
            element.setAttribute("aria-label", element.title || MENU);
        }
        element.addEventListener("keydown", (event) => {
            if (event.key === "Enter" || event.key === " ") {
                event.preventDefault();
                element.click();
            }
        });
    }

    // Of links and buttons that show an icon alone: the name by the icon's word, where no words that are hidden say it.
    const NAMES = {
        account_balance: "Início", add: "Adicionar", filter_list: "Filtros", more_horiz: "Mais ações", search: "Procurar",
    };

    function nameAction(icon) {
        const action = icon.closest("a, button");
        if (action === null || action.title || action.hasAttribute("aria-label") || action.innerText.trim() !== icon.innerText.trim()) {
            return;
        }
        const name = action.textContent.replace(icon.textContent, "").trim() || NAMES[icon.textContent.trim()];
        if (name) {
            action.setAttribute("aria-label", name);
        }
    }

    function hideIcon(icon) {
        if (icon.hasAttribute("role")) {
            return;
        }
        icon.setAttribute("aria-hidden", "true");
        nameAction(icon);
        const around = icon.parentElement;
        const isAlone = around !== null && around.textContent.trim() === icon.textContent.trim();
        if (isAlone && around.title && around.matches("div, span")) { // a yes or no in a list
            around.setAttribute("role", "img");
            around.setAttribute("aria-label", around.title);
        }
    }

    function mend(root) {
        each(root, PRESSED, makeButton);
        each(root, ICON, hideIcon);
        each(root, ".help-tooltip[aria-label]", (tooltip) => tooltip.setAttribute("role", "img"));
        each(root, "#nav-sidebar-inner", (menu) => menu.setAttribute("aria-label", "Menu"));
        each(root, "#tabs-items", (tabs) => tabs.setAttribute("aria-label", "Abas"));
        each(root, FRAME, (frame) => frame.setAttribute("aria-label", frame.closest("#nav-sidebar") ? "Menu" : "Tabela"));
    }

    document.addEventListener("DOMContentLoaded", () => {
        (document.getElementById("main") || document.getElementById("page"))?.setAttribute("role", "main");
        mend(document.body);
        const watch = new MutationObserver((changes) => changes.forEach((change) => change.addedNodes.forEach((node) => {
            if (node instanceof Element) {
                mend(node);
            }
        })));
        watch.observe(document.body, { childList: true, subtree: true });
    });
})();
