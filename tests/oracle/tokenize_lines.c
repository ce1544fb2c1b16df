/* tokenize_lines.c: for compare_tokenizers.py. TOKENIZER [plain]: each line of standard input is a
 * text in hexadecimal; prints its ids (with special tokens unless "plain"), or "error NAME". */
#include "base/memory.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int digit(int c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

int main(int count, char **arguments)
{
    rs_tokenizer *tokenizer;
    rs_error err;
    if (count < 2 || rs_tokenizer_open(&tokenizer, arguments[1], &err) != RS_OK) {
        fprintf(stderr, "%s: %s\n", err.where, err.what);
        return 2;
    }
    bool special = count<3, decode = count> 2 && strcmp(arguments[2], "decode") == 0;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    while ((length = getline(&line, &capacity, stdin)) >= 0) {
        size_t n = (size_t)length / 2;
        char *text = malloc(n + 1);
        for (size_t i = 0; i < n; i++)
            text[i] = (char)(digit(line[2 * i]) * 16 + digit(line[2 * i + 1]));
        rs_token_ids ids;
        if (rs_tokenizer_encode(&ids, tokenizer, text, n, special, &err) != RS_OK) {
            printf("error %s\n", err.what);
        } else if (decode) {
            char *back;
            rs_tokenizer_decode(&back, tokenizer, ids.ids, ids.n, false, &err);
            for (const char *p = back; *p; p++)
                printf("%02x", (unsigned char)*p);
            printf("\n");
            rs_free(back);
        } else {
            for (size_t i = 0; i < ids.n; i++)
                printf("%s%d", i ? " " : "", ids.ids[i]);
            printf("\n");
        }
        rs_token_ids_free(&ids);
        free(text);
    }
    free(line);
    rs_tokenizer_close(tokenizer);
    return 0;
}
