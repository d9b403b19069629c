#ifndef CEDITLINE_SHIM_H
#define CEDITLINE_SHIM_H

#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

// Functions with variable arguments, which Swift does not import, and the standard streams.

// An editor at the standard streams whose owner finds itself by `owner`; NULL without memory or terminal.
static inline EditLine *ceditline_open(void *owner, char *(*prompt)(EditLine *), int (*read)(EditLine *, wchar_t *),
                                       unsigned char (*complete)(EditLine *, int)) {
    // The encoding of characters, and nothing else. SQL is UTF-8, and libedit drops what the encoding does not have.
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
        if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "UTF-8");
    }
    EditLine *editor = el_init("cipherctl", stdin, stdout, stderr);
    if (!editor) return NULL;
    el_set(editor, EL_CLIENTDATA, owner);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_SIGNAL, 0);
    el_set(editor, EL_PROMPT, prompt);
    el_wset(editor, EL_GETCFN, read);
    el_set(editor, EL_ADDFN, "complete-name", "Complete the name before the cursor", complete);
    el_set(editor, EL_BIND, "^I", "complete-name", NULL);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(editor, NULL);
    return editor;
}

static inline void *ceditline_owner(EditLine *editor) {
    void *owner = NULL;
    el_get(editor, EL_CLIENTDATA, &owner);
    return owner;
}

// A history of `count` lines, which the editor offers.
static inline History *ceditline_open_history(EditLine *editor, int count) {
    History *lines = history_init();
    if (!lines) return NULL;
    HistEvent event;
    history(lines, &event, H_SETSIZE, count);
    history(lines, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_HIST, history, lines);
    return lines;
}

static inline void ceditline_remember(History *lines, const char *line) {
    HistEvent event;
    history(lines, &event, H_ENTER, line);
}

static inline void ceditline_refresh(EditLine *editor) { el_set(editor, EL_REFRESH); }

// Sets the terminal for editing. el_gets does it after the prompt: a Ctrl-D that is typed between both would be lost.
static inline void ceditline_prepare_terminal(EditLine *editor) { el_set(editor, EL_PREP_TERM, 1); }

// Sets the terminal again after another program has changed it.
static inline void ceditline_prepare_again(EditLine *editor) {
    el_set(editor, EL_PREP_TERM, 0);
    el_set(editor, EL_PREP_TERM, 1);
}

static inline void ceditline_restore_terminal(EditLine *editor) { el_set(editor, EL_PREP_TERM, 0); }

#endif
