import Foundation
import FuzzTargets

/// libFuzzer, with the function that it calls for each input.
/// - SeeAlso: <https://llvm.org/docs/LibFuzzer.html#using-libfuzzer-as-a-library>
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ body: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

if CommandLine.arguments.dropFirst() == ["targets"] {
    for target in FuzzTarget.all { print(target.name) }
    exit(EXIT_SUCCESS)
}
var count = CommandLine.argc
var arguments = CommandLine.unsafeArgv
exit(runDriver(&count, &arguments, readInput))

/// The main function of libFuzzer, which a debug build links and never calls, wants it under this name.
@_cdecl("LLVMFuzzerTestOneInput")
func readInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    FuzzTarget.current.run(Array(UnsafeBufferPointer(start: start, count: count)))
    return 0
}
