import StorePlatform

/// A text that contains a key: it is assembled in locked memory, goes from there to a descriptor, and is wiped at deinit.
///
/// A `String` would leave copies in ordinary memory, which can reach swap space and core images.
struct SecretText: ~Copyable {
    private var buffer: WipedBuffer
    private static let digits = Array("0123456789abcdef".utf8)

    /// - Parameter capacity: The most bytes that it can have.
    init(capacity: Int) { buffer = WipedBuffer(capacity: capacity) }

    /// Whether it is in locked memory; a limit of the system may prevent that (`ulimit -l`).
    var isLocked: Bool { buffer.isLocked }

    /// Appends a part that is no secret.
    mutating func append(_ text: String) {
        for byte in text.utf8 { take(byte) }
    }

    /// Appends bytes of a secret as they are.
    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        for byte in bytes { take(byte) }
    }

    /// Appends bytes of a secret as lower-case hexadecimal digits.
    mutating func append(hex bytes: UnsafeRawBufferPointer) {
        for byte in bytes {
            take(Self.digits[Int(byte >> 4)])
            take(Self.digits[Int(byte & 15)])
        }
    }

    private mutating func take(_ byte: UInt8) {
        // A key that was cut would be useless, and nobody would see it.
        guard buffer.remaining > 0 else { preconditionFailure("a text with a key is longer than its capacity") }
        buffer.append(byte)
    }

    /// Lends the text; the bytes must not outlive the call.
    func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try buffer.withBytes(body)
    }
}
