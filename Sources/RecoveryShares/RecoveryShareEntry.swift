import StoreCrypto

/// A share that is entered line by line: each line is verified on its own.
package struct RecoveryShareEntry: Sendable {
    /// The data of line 1.
    private var first: UInt64?
    /// The data of the other lines that were entered, 8 bytes each, in locked memory.
    private var rest: [SecretBytes] = []

    package init() {}

    /// The number of the next line, from 1.
    package var nextLine: Int { first == nil ? 1 : rest.count + 2 }

    /// The content of line 1; nil until it was entered.
    package var header: RecoveryShare.Header? { first.flatMap { try? RecoveryShare.Header(data: $0) } }

    /// The share; nil until its last line was entered.
    package var share: RecoveryShare? {
        guard let header, rest.count == RecoveryShare.lineCount - 1 else { return nil }
        let values = SecretBytes(count: RecoveryShare.valueBytes) { output in
            for (index, line) in rest.enumerated() {
                line.withBytes { bytes in
                    for (offset, byte) in bytes.enumerated() { output[index * ShareLine.dataBytes + offset] = byte }
                }
            }
        }
        return RecoveryShare(header: header, values: values)
    }

    /// Takes the next line. At the start of a share its text may also be the whole share, as a QR code gives it.
    ///
    /// - Throws: ``RecoveryShare/ReadingError``; then the same line is the next one.
    package mutating func enter(_ typed: UnsafeRawBufferPointer) throws(RecoveryShare.ReadingError) {
        let text = RecoveryShareText(typed)
        if first == nil, text.count > ShareLine.characters + 1 {
            let share = try RecoveryShare(reading: typed)
            first = share.header.data
            rest = share.values.withBytes { values in
                stride(from: 0, to: values.count, by: ShareLine.dataBytes).map { start in
                    SecretBytes(copying: UnsafeRawBufferPointer(rebasing: values[start..<start + ShareLine.dataBytes]))
                }
            }
            return
        }
        guard text.count == ShareLine.characters else { throw .lineLength(line: nextLine, found: text.count) }
        try take(text, at: 0)
    }

    /// Takes the next line from its position in a text.
    mutating func take(_ text: borrowing RecoveryShareText, at position: Int) throws(RecoveryShare.ReadingError) {
        guard let data = text.data(ofLine: nextLine, at: position, header: first) else {
            let isStrange = text.hasStranger(ShareLine.characters, at: position)
            throw isStrange ? .character(line: nextLine) : .check(line: nextLine)
        }
        if first == nil {
            _ = try RecoveryShare.Header(data: data)
            first = data
        } else {
            rest.append(
                SecretBytes(count: ShareLine.dataBytes) { output in
                    for index in output.indices {
                        output[index] = UInt8(truncatingIfNeeded: data >> UInt64(56 - 8 * index))
                    }
                })
        }
    }
}
