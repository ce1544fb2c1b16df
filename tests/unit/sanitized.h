/* sanitized.h: whether a test is built with a sanitizer, for those that would take minutes with one. */
#ifndef RS_TESTS_SANITIZED_H
#define RS_TESTS_SANITIZED_H

#ifndef __has_feature /* clang's way to say it */
#define __has_feature(x) 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define RS_THREAD_SANITIZER 1
#else
#define RS_THREAD_SANITIZER 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define RS_ADDRESS_SANITIZER 1
#else
#define RS_ADDRESS_SANITIZER 0
#endif

#endif
