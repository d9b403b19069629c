import COpenSSL

/// AES-256-CBC without padding, keyed once for many pages.
///
/// Both contexts are set up when the value is made; a page needs a new initialization vector and no allocation.
/// libcrypto keeps the expanded key in its contexts and wipes them when they are freed.
// Safe because: the contexts have one owner, and every use of them is mutating.
package struct PageCipher: ~Copyable, @unchecked Sendable {
    /// Bytes of a cipher block; lengths must be multiples of it.
    package static let blockBytes = 16
    /// Bytes of an initialization vector.
    package static let initializationVectorBytes = 16

    private let encryptor: OpaquePointer
    private let decryptor: OpaquePointer

    /// - Throws: ``CryptoError`` when the key is not 32 bytes long or libcrypto fails.
    package init(key: SecretBytes) throws(CryptoError) {
        let encryptor = try Self.makeContext(key: key, encrypts: true)
        do throws(CryptoError) {
            decryptor = try Self.makeContext(key: key, encrypts: false)
        } catch {
            EVP_CIPHER_CTX_free(encryptor)
            throw error
        }
        self.encryptor = encryptor
    }

    deinit {
        EVP_CIPHER_CTX_free(encryptor)
        EVP_CIPHER_CTX_free(decryptor)
    }

    /// Encrypts `input` into `output`, which must have the same length; they may be the same memory.
    package mutating func encrypt(
        _ input: UnsafeRawBufferPointer, initializationVector: UnsafeRawPointer,
        into output: UnsafeMutableRawBufferPointer
    ) throws(CryptoError) {
        try Self.run(encryptor, input, initializationVector, output)
    }

    /// Decrypts `input` into `output`, which must have the same length; they may be the same memory.
    package mutating func decrypt(
        _ input: UnsafeRawBufferPointer, initializationVector: UnsafeRawPointer,
        into output: UnsafeMutableRawBufferPointer
    ) throws(CryptoError) {
        try Self.run(decryptor, input, initializationVector, output)
    }

    private static func makeContext(key: SecretBytes, encrypts: Bool) throws(CryptoError) -> OpaquePointer {
        guard key.count == CipherSettings.keyBytes else {
            throw CryptoError("EVP_CipherInit_ex2", reason: "the key has \(key.count) bytes instead of 32")
        }
        let cipher = EVP_CIPHER_fetch(nil, "AES-256-CBC", nil)
        // The context keeps its own reference.
        defer { EVP_CIPHER_free(cipher) }
        try CryptoError.check(cipher != nil, "EVP_CIPHER_fetch")
        guard let context = EVP_CIPHER_CTX_new() else { throw CryptoError.last("EVP_CIPHER_CTX_new") }
        let status = key.withBytes { EVP_CipherInit_ex2(context, cipher, $0.bytes, nil, encrypts ? 1 : 0, nil) }
        guard status == 1, EVP_CIPHER_CTX_set_padding(context, 0) == 1 else {
            EVP_CIPHER_CTX_free(context)
            throw CryptoError.last("EVP_CipherInit_ex2")
        }
        return context
    }

    private static func run(
        _ context: OpaquePointer, _ input: UnsafeRawBufferPointer, _ initializationVector: UnsafeRawPointer,
        _ output: UnsafeMutableRawBufferPointer
    ) throws(CryptoError) {
        guard input.count == output.count, input.count % blockBytes == 0, let count = Int32(exactly: input.count)
        else {
            throw CryptoError("EVP_CipherUpdate", reason: "the length is not a whole number of cipher blocks")
        }
        let vector = initializationVector.assumingMemoryBound(to: UInt8.self)
        var written: Int32 = 0
        // No EVP_CipherFinal: without padding nothing is left over, and the next vector restarts the operation.
        guard EVP_CipherInit_ex2(context, nil, nil, vector, -1, nil) == 1,
            EVP_CipherUpdate(context, output.bytes, &written, input.bytes, count) == 1,
            written == count
        else {
            throw CryptoError.last("EVP_CipherUpdate")
        }
    }
}
