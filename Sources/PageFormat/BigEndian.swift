extension UnsafeRawBufferPointer {
    /// Reads a big-endian number, as SQLite stores all of its own.
    func bigEndian<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Number.Type) -> Number {
        Number(bigEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }
}

extension [UInt8] {
    /// Reads a big-endian number, as SQLite stores all of its own.
    func bigEndian<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Number.Type) -> Number {
        withUnsafeBytes { $0.bigEndian(at: offset, as: type) }
    }
}
