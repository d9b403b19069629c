import CipherStore

// What a user of the library writes, in language mode 6; it grows with the public interface.
print("a consumer in language mode 6 imports CipherStore")
