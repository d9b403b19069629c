import Testing

@testable import cipherctl

/// Keys that the command line prints were texts in ordinary memory.
@Suite("Texts with a key") struct SecretTextTests {
    @Test("are assembled in memory that is locked and wiped, byte by byte")
    func assembled() {
        var text = SecretText(capacity: 32)
        text.append("key ")
        let (key, end): ([UInt8], [UInt8]) = ([0x00, 0x9f, 0xff], Array(" end".utf8))
        key.withUnsafeBytes { text.append(hex: $0) }
        end.withUnsafeBytes { text.append($0) }
        let (found, isLocked) = (text.withBytes { String(decoding: $0, as: UTF8.self) }, text.isLocked)
        #expect(found == "key 009fff end")
        #expect(isLocked)
    }

    @Test("a text that would not fit ends the process, and is not cut")
    func tooLong() async {
        await #expect(processExitsWith: .failure) {
            var text = SecretText(capacity: 3)
            text.append("four")
        }
    }
}
