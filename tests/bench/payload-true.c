/* The smallest program that can be started: what the figures pay for starting it is the kernel's.
 */

int main(void)
{
    return 0;
}
