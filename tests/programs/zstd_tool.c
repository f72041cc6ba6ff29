/* What the zstd command does, on the library (the zstd-sys crate leaves
 * programs/ out):
 *
 *     zstd compress LEVEL WORKERS INPUT OUTPUT [DICTIONARY]
 *     zstd decompress INPUT OUTPUT [DICTIONARY]
 *     zstd train OUTPUT SAMPLE...
 *
 * Compression and decompression stream, in buffers of the library's choice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zdict.h"
#include "zstd.h"

static void fail(const char *what, const char *why) {
  fprintf(stderr, "zstd: %s: %s\n", what, why);
  exit(1);
}

static size_t checked(size_t result, const char *what) {
  if (ZSTD_isError(result)) fail(what, ZSTD_getErrorName(result));
  return result;
}

static FILE *open_file(const char *name, const char *mode) {
  FILE *file = fopen(name, mode);
  if (file == NULL) {
    perror(name);
    exit(1);
  }
  return file;
}

struct bytes {
  char *data;
  size_t size;
};

/* Appends the file to `all`. */
static size_t append_file(struct bytes *all, const char *name) {
  FILE *file = open_file(name, "rb");
  size_t before = all->size, got;
  do {
    all->data = realloc(all->data, all->size + 65536);
    if (all->data == NULL) fail(name, "out of memory");
    got = fread(all->data + all->size, 1, 65536, file);
    all->size += got;
  } while (got > 0);
  fclose(file);
  return all->size - before;
}

static void write_file(FILE *file, const void *data, size_t size, const char *name) {
  if (fwrite(data, 1, size, file) != size) fail(name, "cannot write");
}

static void compress(char **words, const char *dictionary) {
  ZSTD_CCtx *context = ZSTD_createCCtx();
  FILE *input = open_file(words[2], "rb"), *output = open_file(words[3], "wb");
  size_t input_room = ZSTD_CStreamInSize(), output_room = ZSTD_CStreamOutSize();
  char *in = malloc(input_room), *out = malloc(output_room);
  if (context == NULL || in == NULL || out == NULL) fail(words[2], "out of memory");
  checked(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, atoi(words[0])), "level");
  checked(ZSTD_CCtx_setParameter(context, ZSTD_c_nbWorkers, atoi(words[1])), "workers");
  checked(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1), "checksum");
  if (dictionary != NULL) {
    struct bytes content = {NULL, 0};
    append_file(&content, dictionary);
    checked(ZSTD_CCtx_loadDictionary(context, content.data, content.size), dictionary);
    free(content.data);
  }
  int last;
  do {
    ZSTD_inBuffer source = {in, fread(in, 1, input_room, input), 0};
    last = source.size < input_room;
    size_t rest;
    do {
      ZSTD_outBuffer target = {out, output_room, 0};
      rest = checked(ZSTD_compressStream2(context, &target, &source, last ? ZSTD_e_end : ZSTD_e_continue),
                     words[2]);
      write_file(output, out, target.pos, words[3]);
    } while (last ? rest != 0 : source.pos < source.size);
  } while (!last);
  fclose(input);
  if (fclose(output) != 0) fail(words[3], "cannot write");
  ZSTD_freeCCtx(context);
  free(in);
  free(out);
}

static void decompress(char **words, const char *dictionary) {
  ZSTD_DCtx *context = ZSTD_createDCtx();
  FILE *input = open_file(words[0], "rb"), *output = open_file(words[1], "wb");
  size_t input_room = ZSTD_DStreamInSize(), output_room = ZSTD_DStreamOutSize();
  char *in = malloc(input_room), *out = malloc(output_room);
  if (context == NULL || in == NULL || out == NULL) fail(words[0], "out of memory");
  if (dictionary != NULL) {
    struct bytes content = {NULL, 0};
    append_file(&content, dictionary);
    checked(ZSTD_DCtx_loadDictionary(context, content.data, content.size), dictionary);
    free(content.data);
  }
  size_t got, rest = 0;
  while ((got = fread(in, 1, input_room, input)) > 0) {
    ZSTD_inBuffer source = {in, got, 0};
    while (source.pos < source.size) {
      ZSTD_outBuffer target = {out, output_room, 0};
      rest = checked(ZSTD_decompressStream(context, &target, &source), words[0]);
      write_file(output, out, target.pos, words[1]);
    }
  }
  if (rest != 0) fail(words[0], "truncated");
  fclose(input);
  if (fclose(output) != 0) fail(words[1], "cannot write");
  ZSTD_freeDCtx(context);
  free(in);
  free(out);
}

static void train(const char *name, char **samples, int count) {
  struct bytes all = {NULL, 0};
  size_t *sizes = calloc((size_t)count, sizeof *sizes);
  char *dictionary = malloc(16384);
  if (sizes == NULL || dictionary == NULL) fail(name, "out of memory");
  for (int i = 0; i < count; i++) sizes[i] = append_file(&all, samples[i]);
  size_t size = ZDICT_trainFromBuffer(dictionary, 16384, all.data, sizes, (unsigned)count);
  if (ZDICT_isError(size)) fail(name, ZDICT_getErrorName(size));
  FILE *output = open_file(name, "wb");
  write_file(output, dictionary, size, name);
  if (fclose(output) != 0) fail(name, "cannot write");
  printf("dictionary of %zu bytes, id %u\n", size, ZDICT_getDictID(dictionary, size));
  free(dictionary);
  free(sizes);
  free(all.data);
}

int main(int count, char **words) {
  const char *verb = count > 1 ? words[1] : "";
  if (strcmp(verb, "compress") == 0 && (count == 6 || count == 7)) {
    compress(words + 2, words[6]);
  } else if (strcmp(verb, "decompress") == 0 && (count == 4 || count == 5)) {
    decompress(words + 2, words[4]);
  } else if (strcmp(verb, "train") == 0 && count > 3) {
    train(words[2], words + 3, count - 3);
  } else {
    fprintf(stderr, "usage: zstd compress LEVEL WORKERS INPUT OUTPUT [DICTIONARY]\n"
                    "       zstd decompress INPUT OUTPUT [DICTIONARY]\n"
                    "       zstd train OUTPUT SAMPLE...\n");
    return 2;
  }
  return 0;
}
