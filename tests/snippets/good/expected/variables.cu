// ${X} @X@ $ENV{HOME} $<CONFIG> @text@ ${text} $(x) %PATH% #cmakedefine X
#cmakedefine X
#cmakedefine01 Y
