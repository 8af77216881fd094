#!/bin/bash
# classifier demo: videos frame by frame in a build with OPENCV=1 (OPENCV_DARKNET, or the program under test), a refusal in
# others.
. "$(dirname "$0")/common.inc"
make_data
make_cfg mini.cfg
"$DARKNET" classifier train mini.data mini.cfg >/dev/null 2>train.err || fail "training"
weights=backup/mini_final.weights
has_video() { "$1" version | grep '^images opencv' >/dev/null; }
demo() { timeout 60 "$video" classifier demo mini.data mini.cfg $weights "$@" >out 2>err </dev/null; }
refuses() { # refuses WORDS ARGUMENT...: status 1, nothing on stdout, one line with these words
    local words=$1
    shift
    demo "$@"
    [ $? = 1 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -qE "^darknet: .*($words)" err || { cat out err; return 1; }
}
for i in {0..4}; do cp img/${i}_*.ppm f_0$i.ppm; done
image wide.ppm 23 9 7 200 20 30 # rows that are padded in a bitmap
predicted() { # predicted ARGUMENT...: what predict says of these images, as demo says it of frames
    "$video" classifier predict mini.data mini.cfg $weights -csv "$@" 2>/dev/null | sed '1s/^image/frame/'
}
by_number() { awk -F, -v OFS=, 'NR > 1 { n += $1 != last; last = $1; $1 = n } 1'; }
video=$DARKNET
check "help names it" sh -c "'$DARKNET' classifier demo --help | grep -- '-c N' >/dev/null"

# ---- numbered images: in every build ----
predicted f_*.ppm >images.csv
check "numbered images" demo f_%02d.ppm -csv
check "numbered images: the answers of predict" cmp out images.csv
check "numbered images: a line that ends" grep -qE '^frames: 5, [0-9.]+ a second; preprocessing: letterbox to 8x8$' err
for i in 0 1 2; do cp f_03.ppm g_3$i.ppm; done
check "from any number on" demo g_%d.ppm
check "from any number on: all" grep -q '^frames: 3, ' err
head -c 50 f_03.ppm >g_31.ppm
demo g_%d.ppm
check "a damaged image among them: status 1" test $? = 1
check "a damaged image among them: named" grep -q '^darknet: g_31.ppm: is truncated' err
for i in 1 2 4; do cp img/3_*.ppm h_$i.ppm; done
check "an image that is missing" demo h_%d.ppm -csv
check "an image that is missing: the end, and said" test "$(cut -d, -f1 out | sort -u | wc -l),$(grep -c '^h_%d.ppm: image 3 is missing, 4 is there' err)" = 3,1
for i in 1 2; do cp "$here/tests/unit/jpeg/turned.jpg" t_$i.jpg; done
check "images with an EXIF orientation" demo t_%d.jpg
check "images with an EXIF orientation: it is ignored and that is said, once" test "$(grep -c ': has an EXIF orientation, which is ignored' err)" = 1
check "a folder: what takes it" refuses 'img: is a folder: classifier predict takes them' img
check "no such images" refuses 'gone_%02d.ppm: no image has such a name' gone_%02d.ppm
check "into a file" demo f_%02d.ppm -t 2
check "into a file: frames by the names of their files" test "$(grep -cxE 'frame f_0[0-4].ppm:' out)" = 5 -a "$(head -n 1 out)" = 'frame f_00.ppm:'
check "into a file: Darknet's lines" test "$(grep -cxE '[0-9]+\.[0-9]%: (ant|bee|cow)' out)" = 10
check "into a file: no escape codes" lacks out $'\033'
check "flags of other Darknets" demo f_%02d.ppm -dont_show -mjpeg_port 8090
check "flags of other Darknets: said once" grep -qx 'without effect here: -dont_show, -mjpeg_port' err
if on_terminal demo mini.data mini.cfg $weights f_%02d.ppm -t 1; then
    check "on a terminal: each frame clears the one before" test "$(grep -c $'^\033\[2J\033\[1;1H' tty.out)" = 5
    check "on a terminal: frames a second" test "$(grep -cE '^FPS:[0-9]+.$' tty.out)" = 5
fi
check "two videos" refuses 'unexpected argument' f_%02d.ppm f_%02d.ppm
check "a video and a camera" refuses 'f_%02d.ppm contradicts -c 0' f_%02d.ppm -c 0
mkdir -p many
python3 -c "import os; [os.symlink('../f_00.ppm', f'many/{i}.ppm') for i in range(5000)]"
"$DARKNET" classifier demo mini.data mini.cfg $weights many/%d.ppm >many.out 2>many.err &
await test -s many.out
kill -TERM $!
wait $!
check "a signal: status" test $? = 143
check "a signal: one line" grep -qE '^stopped by a signal: frames: [0-9]+, ' many.err
check "a signal: whole frames" test "$(tail -n 3 many.out | grep -c '%:')" = 2
"$DARKNET" classifier demo mini.data mini.cfg $weights many/%d.ppm 2>pipe.err | head -n 1 >/dev/null
check "a closed pipe: status 1" test "${PIPESTATUS[0]}" = 1
check "a closed pipe: one line" grep -qxE 'darknet: standard output: Broken pipe' pipe.err

# ---- videos: in a build with OPENCV=1 ----
if ! has_video "$DARKNET"; then
    check "a build without OPENCV=1: what to do" refuses 'OPENCV=1, or run ffmpeg .* predict' film.avi
    check "the same of a camera" refuses 'OPENCV=1, or run ffmpeg .* predict' -c 0
fi
video=${OPENCV_DARKNET:-$DARKNET}
has_video "$video" || { skip "videos: need a build with OPENCV=1"; finish; }
predicted f_*.ppm | by_number >images.csv

# avi FILE FOURCC WIDTH HEIGHT FRAME...: frames of PPM as they are (DIB), or of JPEG (MJPG).
avi() {
    python3 - "$@" <<'END'
import struct, sys
name, kind, w, h = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])
def chunk(tag, data): return tag + struct.pack('<I', len(data)) + data + b'\0' * (len(data) & 1)
def group(tag, data): return chunk(b'LIST', tag + data)
def frame(path): # the rows of a bitmap run upwards, in blue, green, red, and end on a multiple of 4 bytes
    data = open(path, 'rb').read()
    if kind != b'DIB ': return data
    rgb = data[-3 * w * h:]
    rows = [b''.join(rgb[i:i + 3][::-1] for i in range(y * w * 3, (y + 1) * w * 3, 3)) for y in reversed(range(h))]
    return b''.join(r + b'\0' * (-len(r) % 4) for r in rows)
frames = [frame(f) for f in sys.argv[5:]]
fourcc = bytes(4) if kind == b'DIB ' else kind
main = struct.pack('<14I', 40000, 0, 0, 16, len(frames), 0, 1, 1 << 20, w, h, 0, 0, 0, 0)
stream = b'vids' + kind + struct.pack('<10I4H', 0, 0, 0, 1, 25, 0, len(frames), 1 << 20, 0, 0, 0, 0, w, h)
bitmap = struct.pack('<IiiHH4s5I', 40, w, h, 1, 24, fourcc, 0, 0, 0, 0, 0)
tag, movie, index, at = (b'00db' if kind == b'DIB ' else b'00dc'), b'', b'', 4
for f in frames:
    c = chunk(tag, f)
    index += tag + struct.pack('<3I', 16, at, len(f))
    movie, at = movie + c, at + len(c)
strl = group(b'strl', chunk(b'strh', stream) + chunk(b'strf', bitmap))
head = group(b'hdrl', chunk(b'avih', main) + strl)
open(name, 'wb').write(chunk(b'RIFF', b'AVI ' + head + group(b'movi', movie) + chunk(b'idx1', index)))
END
}
check "an uncompressed video" avi dib.avi 'DIB ' 8 8 f_*.ppm
check "an uncompressed video is read" demo dib.avi -csv
check "an uncompressed video: the answers of predict" cmp out images.csv
check "a wide one" avi wide.avi 'DIB ' 23 9 wide.ppm wide.ppm
for flags in '' -center '-set net.channels=3 -set net.letter_box=1' '-t 3'; do
    predicted wide.ppm $flags | by_number >want
    demo wide.avi -csv $flags
    check "a wide one, ${flags:-letterbox}: the answers of predict" sh -c "grep -v '^2,' out | cmp - want"
    check "a wide one, ${flags:-letterbox}: the second frame is the first" sh -c "sed -n '1p; s/^2,/1,/p' out | cmp - want"
done
# Two readings of the same JPEG differ by some 2/255, and probabilities by less than this.
near() { awk -F, 'FNR == 1 { next } NR == FNR { p[$1, $4] = $5; n++; next }
    { d = p[$1, $4] - $5; if (!(($1, $4) in p) || d * d > .005 ^ 2) exit 1; n-- } END { exit n != 0 }' want out; }
for kind in 444 422 420 gray; do
    jpeg=$here/tests/unit/jpeg/$kind.jpg
    check "MJPG $kind" avi mjpg.avi MJPG 61 45 "$jpeg"
    check "MJPG $kind is read" demo mjpg.avi -csv
    predicted "$jpeg" | by_number >want
    check "MJPG $kind: nearly the answers of predict" near
done
check "no such file" refuses 'gone.avi: No such file' gone.avi
check "a text" refuses 'mini.cfg: is no video' mini.cfg
: >empty.avi
check "an empty file" refuses 'empty.avi: is no video' empty.avi
check "no frames" avi none.avi MJPG 8 8
check "no frames: refused" refuses 'none.avi: (is no video|has no frame)' none.avi
check "a folder" refuses 'img: is a folder: classifier predict' img
check "no such camera" refuses 'camera 99 cannot be opened' -c 99
head -c 900 dib.avi >cut.avi
check "a video that is cut off is read as far as it goes" demo cut.avi
check "a video that is cut off: said" grep -qE '^cut.avi: [1-3] of 5 frames' err
demo dib.avi
check "a whole video: no such remark" lacks err 'of 5 frames'
check "nothing else is said of it" test "$(wc -l <err)" = 1
finish
