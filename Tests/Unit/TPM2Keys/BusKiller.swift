import Foundation

/// Stands between a program and a TPM in software, counts commands, and kills the program after one of them.
struct BusKiller {
    private let proxy: BusProxy

    var address: String { proxy.address }

    /// - Parameters:
    ///   - number: The command after which the program is killed, from 1; 0 for none.
    ///   - pidFile: The file into which the program has written its number.
    init(of tpm: SoftwareTPM, after number: Int, pidFile: String) throws {
        proxy = try BusProxy(
            of: tpm,
            """
            count = 0
            def note(data, is_command):
                global count
                if is_command:
                    count += 1
                    if count == int(sys.argv[3]):
                        os.kill(int(open(sys.argv[4]).read()), signal.SIGKILL)
            def result():
                return str(count).encode()
            """, ["\(number)", pidFile])
    }

    /// The commands that the program has sent.
    func finish() throws -> Int { Int(String(decoding: try proxy.finish(), as: UTF8.self)) ?? 0 }
}
