#ifndef CPLATFORM_H
#define CPLATFORM_H

int cplatform_version(void);

#endif
