import StoreCrypto

/// Authenticates, decrypts and encrypts single pages as SQLCipher does.
///
/// A codec belongs to one thread at a time and is used for many pages; a page costs no allocation. WAL frames hold
/// the same images as the main file, so one codec serves both.
///
/// ```swift
/// var codec = try PageCodec(keys: keys)
/// guard codec.verify(page, number: 7) else { throw StoreError(.pageDamaged(7), ...) }
/// try codec.decrypt(page, number: 7, into: plain)
/// ```
package struct PageCodec: ~Copyable, Sendable {
    /// The layout of a page.
    package let layout: PageLayout

    private let salt: [UInt8]
    private var cipher: PageCipher
    private var authenticator: PageAuthenticator
    private var vectors = RandomPool()

    /// The bytes at the start of page 1 that SQLite expects and SQLCipher replaces by the salt.
    private static let magic = DatabaseHeader.magic

    package init(keys: borrowing PageKeys) throws(PageFormatError) {
        let cipher = try keys.makeCipher()
        let authenticator = try keys.makeAuthenticator()
        layout = keys.layout
        salt = keys.salt
        self.cipher = cipher
        self.authenticator = authenticator
    }

    package init(dataKey: SecretBytes, salt: [UInt8], settings: CipherSettings) throws(PageFormatError) {
        try self.init(keys: PageKeys(dataKey: dataKey, salt: salt, settings: settings))
    }

    /// Whether the page was written under these keys, at this position, and is unchanged.
    ///
    /// The clear bytes of page 1 are not authenticated: ``DatabaseHeader/examine(_:fileBytes:settings:)`` verifies
    /// them. A page of zeros fails: see ``isZero(_:)``.
    package mutating func verify(_ page: UnsafeRawBufferPointer, number: UInt32) -> Bool {
        guard page.count == layout.pageBytes, number > 0 else { return false }
        let start = layout.clearBytes(ofPage: number)
        let message = UnsafeRawBufferPointer(rebasing: page[start..<layout.codeOffset])
        let code = UnsafeRawBufferPointer(rebasing: page[layout.codeOffset..<layout.paddingOffset])
        // A failure of libcrypto counts as not authentic.
        return (try? authenticator.verify(message, number: number, code: code)) ?? false
    }

    /// Decrypts a page that ``verify(_:number:)`` has accepted, into the bytes that SQLite sees.
    ///
    /// The reserve at the end becomes zeros, so that equal content gives equal bytes under any key. Page 1 of a file
    /// without a plaintext header begins with SQLite's magic again. `page` and `plain` may be the same memory.
    package mutating func decrypt(
        _ page: UnsafeRawBufferPointer, number: UInt32, into plain: UnsafeMutableRawBufferPointer
    ) throws(PageFormatError) {
        try check(page.count, plain.count, number)
        guard let source = page.baseAddress, let target = plain.baseAddress else { return }
        let clear = layout.clearBytes(ofPage: number)
        let encrypted = UnsafeRawBufferPointer(rebasing: page[clear..<layout.usableBytes])
        let decrypted = UnsafeMutableRawBufferPointer(rebasing: plain[clear..<layout.usableBytes])
        do throws(CryptoError) {
            try cipher.decrypt(encrypted, initializationVector: source + layout.vectorOffset, into: decrypted)
        } catch {
            throw .cryptography(error)
        }
        if clear > 0 {
            if layout.hasPlaintextHeader {
                target.copyMemory(from: source, byteCount: clear)
            } else {
                plain.copyBytes(from: Self.magic)
            }
        }
        (target + layout.usableBytes).initializeMemory(as: UInt8.self, repeating: 0, count: layout.reservedBytes)
    }

    /// The header in page 1, which may be encrypted; nil where the page is not authentic and has no clear header.
    package mutating func header(ofFirstPage page: [UInt8]) throws(PageFormatError) -> DatabaseHeader? {
        guard !layout.hasPlaintextHeader else { return DatabaseHeader(page) }
        guard page.withUnsafeBytes({ verify($0, number: 1) }) else { return nil }
        var plain = page
        do {
            try plain.withUnsafeMutableBytes { plain in
                try decrypt(UnsafeRawBufferPointer(plain), number: 1, into: plain)
            }
        } catch let error as PageFormatError {
            throw error
        } catch {
            return nil
        }
        return DatabaseHeader(plain)
    }

    /// Encrypts and authenticates the bytes that SQLite sees; the reserve of `plain` is not read.
    ///
    /// - Parameter initializationVector: 16 bytes for test vectors, with zeros for padding. Otherwise both are random,
    ///   as every write of a page needs its own vector.
    package mutating func encrypt(
        _ plain: UnsafeRawBufferPointer, number: UInt32, initializationVector: [UInt8]? = nil,
        into page: UnsafeMutableRawBufferPointer
    ) throws(PageFormatError) {
        try check(plain.count, page.count, number)
        guard let source = plain.baseAddress, let target = page.baseAddress else { return }
        try writeReserve(initializationVector, to: page)
        let clear = layout.clearBytes(ofPage: number)
        let content = UnsafeRawBufferPointer(rebasing: plain[clear..<layout.usableBytes])
        let encrypted = UnsafeMutableRawBufferPointer(rebasing: page[clear..<layout.usableBytes])
        let code = UnsafeMutableRawBufferPointer(rebasing: page[layout.codeOffset..<layout.paddingOffset])
        do throws(CryptoError) {
            try cipher.encrypt(content, initializationVector: target + layout.vectorOffset, into: encrypted)
            try authenticator.authenticate(
                UnsafeRawBufferPointer(rebasing: page[clear..<layout.codeOffset]), number: number, into: code)
        } catch {
            throw .cryptography(error)
        }
        if clear > 0 {
            if layout.hasPlaintextHeader {
                target.copyMemory(from: source, byteCount: clear)
            } else {
                page.copyBytes(from: salt)
            }
        }
    }

    /// Whether a page is all zeros.
    ///
    /// In auto-vacuum databases SQLCipher takes such a page for one after the end of the file and does not authenticate
    /// it, so content can be blanked out without the key. In others it is refused like any page that is not authentic.
    package static func isZero(_ page: UnsafeRawBufferPointer) -> Bool {
        var offset = 0
        while offset + 8 <= page.count {
            if page.loadUnaligned(fromByteOffset: offset, as: UInt64.self) != 0 { return false }
            offset += 8
        }
        return page[offset...].allSatisfy { $0 == 0 }
    }

    private mutating func writeReserve(
        _ vector: [UInt8]?, to page: UnsafeMutableRawBufferPointer
    ) throws(PageFormatError) {
        let vectorBytes = PageCipher.initializationVectorBytes
        let target = UnsafeMutableRawBufferPointer(rebasing: page[layout.vectorOffset..<layout.codeOffset])
        let padding = UnsafeMutableRawBufferPointer(rebasing: page[layout.paddingOffset...])
        if let vector {
            guard vector.count == vectorBytes else {
                throw .wrongLength(
                    what: "the initialization vector", bytes: vector.count, expectedBytes: vectorBytes)
            }
            target.copyBytes(from: vector)
            padding.initializeMemory(as: UInt8.self, repeating: 0)
            return
        }
        do throws(CryptoError) {
            try vectors.take(into: target)
            try vectors.take(into: padding)
        } catch {
            throw .cryptography(error)
        }
    }

    private func check(_ inputBytes: Int, _ outputBytes: Int, _ number: UInt32) throws(PageFormatError) {
        guard inputBytes == layout.pageBytes, outputBytes == layout.pageBytes else {
            let wrong = inputBytes == layout.pageBytes ? outputBytes : inputBytes
            throw .wrongLength(what: "a page buffer", bytes: wrong, expectedBytes: layout.pageBytes)
        }
        if number == 0 { throw .pageNumberZero }
    }
}
