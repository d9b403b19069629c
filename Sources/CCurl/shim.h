#ifndef CCURL_SHIM_H
#define CCURL_SHIM_H

#include <curl/curl.h>
#include <time.h>

// Swift does not call functions with variable arguments: one function for each type of an option.
typedef size_t (*ccurl_receive)(char *bytes, size_t one, size_t count, void *context);
typedef int (*ccurl_progress)(void *context, curl_off_t, curl_off_t, curl_off_t, curl_off_t);

static inline CURLcode ccurl_set_long(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_offset(CURL *handle, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}

// libcurl does not copy the bytes: they must stay until the transfer ends.
static inline CURLcode ccurl_set_body(CURL *handle, const void *bytes, curl_off_t count) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, count);
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_POSTFIELDS, bytes) : code;
}

static inline CURLcode ccurl_set_headers(CURL *handle, struct curl_slist *list) {
    return curl_easy_setopt(handle, CURLOPT_HTTPHEADER, list);
}

static inline CURLcode ccurl_set_receivers(
    CURL *handle, ccurl_receive body, ccurl_receive header, ccurl_progress progress, void *context) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, body);
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_WRITEDATA, context);
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, header);
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_HEADERDATA, context);
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, progress);
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_XFERINFODATA, context);
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L) : code;
}

// Swift does not import macros that are casts.
static inline CURLcode ccurl_initialize(void) {
    return curl_global_init(CURL_GLOBAL_DEFAULT);
}

static inline long ccurl_status(CURL *handle) {
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

// Seconds since 1970 of a date in a header; -1 for other text.
static inline long long ccurl_seconds(const char *date) {
    return (long long)curl_getdate(date, NULL);
}

#endif
